"""One calibration, from drawn training pairs to a value for every document of the bank."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray

from ttf.config.evaluation_schema import CalibrateConfig
from ttf.contracts import DevicePolicy, Precision, Progress, VectorSource
from ttf.data.dataset import Split
from ttf.data.kept_for import content_key
from ttf.data.positives import row_hashes
from ttf.data.vectors import RowView
from ttf.machine.memory.allocator import give_back
from ttf.rundir.calibration_facts import CalibrationFacts
from ttf.rundir.run_folder import RunFolder
from ttf.rundir.verified_folders import folder_key
from ttf.text.progress import Reporter
from ttf.training.calibration import stored
from ttf.training.calibration.choose import GRID, Choice, choose
from ttf.training.calibration.hubness import Hubness, OwnQueries, by_pairs, by_positive
from ttf.training.calibration.ranks import Ranked, ranks_by_factor
from ttf.training.calibration.sample import (
    Drawn,
    draw_documents,
    draw_pairs,
    fingerprint_of,
    most_queries,
)
from ttf.training.calibration.work import Keeps, Work
from ttf.training.documents import Documents
from ttf.training.encoded_queries import encode_split
from ttf.training.team import ALONE, Team
from ttf.training.towers import TwoTower

_STAGE: Final = "calibrate"


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A model with the bank that it is to be calibrated for."""

    folder: RunFolder
    model: TwoTower
    weights_sha256: str
    documents: Documents
    bank: VectorSource  # The documents as stored.
    policy: DevicePolicy
    precision: Precision
    micro_batch: int
    seed: int
    settings: CalibrateConfig
    keeps: Keeps = lambda _: None  # Hears how much of the work is on the disk.
    team: Team = ALONE

    @property
    def most_queries(self) -> int:
        return most_queries(self.settings, self.documents.rows)


@dataclass(frozen=True, kw_only=True)
class Calibrated:
    facts: CalibrationFacts
    found: stored.BankCalibration | None = None  # None: without evidence of a gain.
    queries: stored.SampledQueries | None = None


def calibrate(
    subject: Subject, train: Split, reporter: Reporter, advance: Progress
) -> tuple[Calibrated, Work]:
    """With training pairs. The work is to be cleared once the result is stored. `advance` may
    raise; the next call goes on."""
    fingerprint, team = fingerprint_of(subject.bank, train), subject.team
    queries = [s for s in (train.queries.source, train.queries.context) if s is not None]
    key = _key(subject, "|".join((fingerprint, *map(content_key, queries))))
    work = team.stage(_STAGE, lambda: Work(subject.folder.path, key, subject.keeps))
    drawn = draw_pairs(len(train), subject.most_queries, subject.seed, fingerprint)
    held_out, sampled = _encoded(subject, train, drawn, work, reporter, advance)
    give_back()
    positives = train.known(drawn.sampled)
    hubness = _hubness(subject, sampled, by_positive(positives, subject.documents.rows))

    known = train.known(drawn.held_out)
    ids = draw_documents(subject.documents.rows, known, subject.seed, fingerprint)
    some = _of_some(hubness, ids, work, team, reporter, advance)
    ranked = Ranked(subject.documents, ids, some, advance)
    choice = _chosen(ranked, held_out, known, work, reporter, team)
    facts = _facts(subject, choice, len(sampled))
    if not choice.a:
        return Calibrated(facts=facts), work
    reporter.stage(_STAGE, subject.documents.rows)
    found = hubness.of_bank(work, ids, some, advance, team)
    del hubness
    give_back()
    return Calibrated(
        facts=facts,
        found=stored.BankCalibration(a=choice.a, hubness=found),
        queries=stored.SampledQueries(vectors=sampled, positives=_hashes(subject.bank, positives)),
    ), work


def calibrate_other_bank(
    subject: Subject,
    a: float,
    queries: stored.SampledQueries,
    reporter: Reporter,
    advance: Progress,
) -> tuple[stored.BankCalibration, Work]:
    """For documents that the training pairs do not refer to: with the queries that were kept.
    Their positives are found in the other bank by value."""
    work = Work(subject.folder.path, _key(subject, f"a={a!r}"), subject.keeps)
    rows = _rows_of(queries.positives, row_hashes(subject.bank))
    hubness = _hubness(subject, queries.vectors, by_pairs(*rows, subject.documents.rows))
    reporter.stage(_STAGE, subject.documents.rows)
    nothing = np.empty(0, np.int64)
    found = hubness.of_bank(work, nothing, np.empty(0, np.float32), advance)
    return stored.BankCalibration(a=a, hubness=found), work


def store(subject: Subject, calibrated: Calibrated) -> None:
    """Writes everything but the facts. Raises StorageError."""
    model, weights = subject.folder.model, subject.weights_sha256
    if calibrated.found is not None and calibrated.queries is not None:
        stored.save_queries(model, weights, calibrated.queries)
        stored.save_bank(model, stored.bank_key(subject.bank), weights, calibrated.found)


# --- the parts ------------------------------------------------------------------------------------


def _key(subject: Subject, fingerprint: str) -> str:
    settings = subject.settings
    return folder_key(
        {
            "weights": subject.weights_sha256,
            "bank": stored.bank_key(subject.bank),
            "content": content_key(subject.bank),
            "data": fingerprint,
            "seed": subject.seed,
            "neighbours": settings.neighbours,
            "sample": subject.most_queries,
            "block": subject.documents.block_rows,
        }
    )


def _hubness(subject: Subject, queries: NDArray[np.float32], own: OwnQueries) -> Hubness:
    return Hubness(
        subject.documents, queries, own, subject.settings.neighbours, subject.policy.threads
    )


def _encoded(
    subject: Subject,
    train: Split,
    drawn: Drawn,
    work: Work,
    reporter: Reporter,
    advance: Progress,
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Query vectors of the held-out pairs, and of the sampled ones."""
    rows = np.concatenate([drawn.held_out, drawn.sampled])

    def encode(part: range) -> NDArray[np.float32]:
        reporter.stage(f"{_STAGE}: encode", len(part))
        return encode_split(
            subject.model,
            train,
            rows[part.start : part.stop],
            subject.policy,
            subject.precision,
            subject.micro_batch,
            progress=advance,
        )

    vectors = _kept(work, "queries", subject.team, len(rows), subject.micro_batch, encode)
    held_out = len(drawn.held_out)
    return vectors[:held_out], vectors[held_out:]


def _kept(
    work: Work,
    name: str,
    team: Team,
    count: int,
    block: int,
    make: Callable[[range], NDArray[np.float32]],
) -> NDArray[np.float32]:
    """What was kept, if all processes have it; else made by all of them, in parts, and kept."""
    found = work.get(name)
    if not team.all(f"{name} kept", found is not None and len(found) == count):
        found = made = team.whole(name, count, block, make)
        team.stage(f"{name} to keep", lambda: work.put(name, made))
    assert found is not None
    return found


def _of_some(
    hubness: Hubness,
    ids: NDArray[np.int64],
    work: Work,
    team: Team,
    reporter: Reporter,
    advance: Progress,
) -> NDArray[np.float32]:
    def of_some(part: range) -> NDArray[np.float32]:
        reporter.stage(_STAGE, len(part))
        return hubness.of_some(ids[part.start : part.stop], advance)

    return _kept(work, "some", team, len(ids), hubness.documents.block_rows, of_some)


def _chosen(
    documents: Ranked,
    held_out: NDArray[np.float32],
    known_QP: NDArray[np.int64],
    work: Work,
    reporter: Reporter,
    team: Team,
) -> Choice:
    before = work.get("choice")
    there = team.all("choice kept", before is not None and before.shape == (3,))
    if before is not None and there:
        return Choice(a=float(before[0]), gain=float(before[1]), held_out=int(before[2]))
    if not len(held_out):
        return Choice(a=0.0, gain=0.0, held_out=0, why="there are too few training pairs")
    give_back()
    reporter.stage(f"{_STAGE}: choose", len(documents.ids))
    queries = torch.from_numpy(held_out)
    ranks = ranks_by_factor(documents, queries, known_QP, (0.0, *GRID), team)
    give_back()
    choice = choose(ranks.pop(0.0), ranks)
    if choice.a:
        kept = np.array([choice.a, choice.gain, choice.held_out])
        team.stage("choice", lambda: work.put("choice", kept))
    return choice


def _facts(subject: Subject, choice: Choice, sample: int) -> CalibrationFacts:
    facts: CalibrationFacts = {
        "on": choice.a > 0,
        "a": choice.a,
        "gain": choice.gain,
        "held_out": choice.held_out,
        "weights_sha256": subject.weights_sha256,
        "neighbours": subject.settings.neighbours,
        "sample": sample,
        "bank": stored.bank_key(subject.bank),
    }
    if choice.why:
        facts["why"] = choice.why
    return facts


# --- documents by value -----------------------------------------------------------------------------


def _hashes(bank: VectorSource, positives_QP: NDArray[np.int64]) -> NDArray[np.uint64]:
    rows = np.unique(positives_QP[positives_QP >= 0])
    hashes = row_hashes(RowView(bank, rows))
    found = hashes[np.searchsorted(rows, np.maximum(positives_QP, 0)).clip(max=len(rows) - 1)]
    return np.where(positives_QP >= 0, found, np.uint64(0))


def _rows_of(
    positives_QP: NDArray[np.uint64], bank_hashes: NDArray[np.uint64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Pairs of a query and a bank row with the value of one of its positives; equal rows count
    all."""
    order = np.argsort(bank_hashes, kind="stable")
    ordered = bank_hashes[order]
    query_E, column_E = np.nonzero(positives_QP)
    wanted_E = positives_QP[query_E, column_E]
    first_E = np.searchsorted(ordered, wanted_E, side="left")
    count_E = np.searchsorted(ordered, wanted_E, side="right") - first_E
    queries = np.repeat(query_E, count_E)
    within = np.arange(len(queries)) - np.repeat(np.cumsum(count_E) - count_E, count_E)
    return queries, order[np.repeat(first_E, count_E) + within]
