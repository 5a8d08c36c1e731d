"""A finished run, opened to be used: encode, search, evaluate."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray

from ttf.config.other_data import with_sets
from ttf.config.schema import RunConfig
from ttf.contracts import DevicePolicy, Miner, MinerContext, TowerShape, VectorSource
from ttf.data.dataset import OpenBank, Queries, Split
from ttf.data.open_dataset import Opening, open_queries
from ttf.data.sources import GivenRows, VectorRef, open_ref
from ttf.data.writing import check_output
from ttf.errors import BadData, storage_error
from ttf.host import plugins
from ttf.host.options import NoOptions
from ttf.host.plugins import written_store
from ttf.machine.memory.limits import budget_bytes as memory_budget
from ttf.mining.choose import miner_threads
from ttf.mining.scan.scan_counters import Certifies
from ttf.rundir.cache import cache_dir
from ttf.rundir.calibration_facts import calibration_facts
from ttf.rundir.confined import found_json, read_json
from ttf.rundir.documents import MODEL_CONFIG, ModelFacts
from ttf.rundir.run_folder import RunFolder
from ttf.rundir.run_record import RunRecord
from ttf.rundir.typed_json import typed
from ttf.text.shell import quoted
from ttf.training.calibration.calibrate import Subject
from ttf.training.calibration.stored import BankCalibration, bank_key, bank_of
from ttf.training.documents import Corrected, Documents
from ttf.training.evaluation import encode_split, evaluate
from ttf.training.towers import TwoTower, load_model

_MICRO_BATCH = 256


@dataclass(frozen=True, kw_only=True)
class Found:
    ids: NDArray[np.int64] | NDArray[np.str_]
    scores: NDArray[np.float32]
    ids_are: str
    """What the ids mean: the bank's own `ids`, rows of its `vectors`, or rows of Y."""
    rows: NDArray[np.int64]
    """The same documents as rows of the bank."""

    def __repr__(self) -> str:
        queries, k = self.ids.shape
        return f"Found({queries:,} queries x {k:,} documents; ids are {self.ids_are})"


def open_run(
    run_dir: Path,
    *,
    pairs: Path | None = None,
    bank: Path | str | None = None,
    sets: Sequence[str] | Mapping[str, Any] = (),
    allow_remote: bool = False,
) -> Model:
    """Opens a run with its own data, or with other pairs, another bank or other keys of `[data]`; of
    a run that has not finished, the model it has so far.

    Opens the bank at once, the pairs when `evaluate` is called. `allow_remote`: also where only the
    run's own run.toml names a URL.
    """
    from ttf.training.launch import prepared_policy, read_config

    folder = RunFolder.existing(run_dir)
    resolved = read_config(folder)
    policy = prepared_policy(resolved)
    policy.start()
    towers = load_model(folder.model).to(policy.torch_device())
    shape = TowerShape(**read_json(folder.model / MODEL_CONFIG, folder.path)["query"]["shape"])
    data = with_sets(resolved.config.data, sets)
    changed = {"pairs": pairs, "bank": bank}
    other = data.model_copy(update={k: str(v) for k, v in changed.items() if v is not None})
    if not allow_remote:
        own_pairs = pairs is None or not (bank or data.bank)  # without a bank, they are it
        own = data.pairs if own_pairs else None, None if bank else data.bank, data.context
        plugins.refuse_remote(own, str(folder.config))
    config = resolved.config.model_copy(update={"data": other})
    opening = Opening(other, seed=resolved.config.train.seed, own_pairs=data.pairs)
    try:
        model = Model(config, opening, towers, shape, policy)
        weights = _facts(folder).get("weights_sha256")
        model.calibration = bank_of(folder.model, bank_key(opening.bank.bank), weights)
    except BaseException:
        opening.close()
        raise
    model.notes += _unfinished(folder)
    if model.calibration is None and calibration_facts(folder.model, weights).get("on"):
        model.notes.append(
            "The model is calibrated, but not for this bank, so its scores are not corrected. To "
            f"calibrate it: ttf calibrate {quoted(run_dir)} --bank {quoted(other.bank or 'FILE')}"
        )
    return model


def _facts(folder: RunFolder) -> ModelFacts:
    return typed(found_json(folder.model / MODEL_CONFIG, folder.path), ModelFacts)


def _unfinished(folder: RunFolder) -> list[str]:
    """A note, if the model is not that of a finished run."""
    facts = _facts(folder)
    if "step" not in facts or RunRecord(folder.path).summary().get("status") == "finished":
        return []
    judged = "the best one so far" if facts.get("metrics") else "which was not evaluated yet"
    return [f"The run has not finished: its model is that of step {facts['step']:,}, {judged}."]


class Model:
    """Trained towers and the bank they search; close it (or use `with`) when done."""

    def __init__(
        self,
        config: RunConfig,
        opening: Opening,
        towers: TwoTower,
        shape: TowerShape,
        policy: DevicePolicy,
    ) -> None:
        self.towers = towers
        self.config = config
        # For the user: of a run that has not finished; what a search put in the cache.
        self.notes: list[str] = []
        # For this bank; None: scores are not corrected.
        self.calibration: BankCalibration | None = None
        self._opening = opening
        self._to_close = contextlib.ExitStack()
        self._to_close.callback(opening.close)
        self._shape = shape
        self._policy = policy
        self._precision = policy.precision(config.device.precision)
        bank = opening.bank
        wanted, given = towers.doc.in_dim, bank.bank.shape[1]
        if wanted != given:
            raise BadData(
                f"The towers were trained with documents of width {wanted}, but the bank "
                f"{bank.bank.uri} has documents of width {given}."
            )
        self.documents = Documents(bank, towers, policy, given, memory_budget(config.memory.budget))

    def __repr__(self) -> str:
        towers = self.config.tower
        rows, dim = self._opening.bank.bank.shape
        return f"Model({towers.query.name} -> {towers.doc.name}, bank of {rows:,} x {dim})"

    def encode_queries(
        self, x: NDArray[Any], lengths: NDArray[np.int64] | None = None
    ) -> NDArray[np.float32]:
        """Vectors of queries (N, D) or (N, L, D); `lengths` (N,) for sequences shorter than L."""
        source = GivenRows(np.asarray(x), "queries")
        if lengths is not None:
            lengths = _checked_lengths(np.asarray(lengths), source.shape)
        return self.encode_rows(Queries(source, None, lengths))

    def encode_documents(self, x: NDArray[Any]) -> NDArray[np.float32]:
        """Vectors of documents (N, D), made like those of the bank."""
        with torch.no_grad():
            given = torch.from_numpy(np.array(x, np.float32))
            return self.towers.encode_documents(self._policy.to_device(given)).cpu().numpy()

    def search(
        self, queries: NDArray[Any], k: int = 10, lengths: NDArray[np.int64] | None = None
    ) -> Found:
        """The k best documents of raw queries (they are encoded first), exact."""
        return self._find(self.encode_queries(queries, lengths), k)

    def search_file(
        self, queries: Path, k: int = 10, out: Path | None = None, *, overwrite: bool = False
    ) -> Found:
        """Searches for the queries of a file; with `out`, writes ids and scores to that file."""
        if out is not None:
            check_output(str(out), overwrite=overwrite)
        with open_queries(str(queries), self.config.data, self._opening.bank.bank) as found_queries:
            found = self._find(self.encode_rows(found_queries), k)
        if out is not None:
            _write(out, found)
        return found

    def encode_rows(
        self, queries: Queries, rows: NDArray[np.int64] | None = None
    ) -> NDArray[np.float32]:
        # `rows` None: all. Errors name the file and the row.
        self._check_fits(queries)
        keep = np.arange(len(queries), dtype=np.int64)
        rows = keep if rows is None else rows
        if not len(rows):
            return np.empty((0, self.documents.dim), np.float32)
        split = Split(
            name="queries",
            queries=queries,
            positives=np.full((len(keep), 1), -1, dtype=np.int64),
            keep=keep,
            left_out=0,
        )
        return encode_split(self.towers, split, rows, self._policy, self._precision, _MICRO_BATCH)

    def _check_fits(self, queries: Queries) -> None:
        wanted, file = self._shape, queries.source.uri
        if queries.dim != wanted.in_dim:
            raise BadData(
                f"The query tower was trained with vectors of width {wanted.in_dim}, but the "
                f"queries of {file} have the width {queries.dim}."
            )
        if queries.length > wanted.length:
            trained = f"sequences of {wanted.length} steps" if wanted.sequence else "single vectors"
            raise BadData(
                f"The query tower was trained with {trained}, but the queries of {file} are "
                f"sequences of {queries.length} steps.",
                hint=(
                    "Keep only the last steps of each query, or train a tower with sequences "
                    "of that length."
                ),
            )

    def compared(self, vectors: NDArray[np.float32]) -> NDArray[np.float32]:
        """Encoded queries as they are compared with the documents of `reference`: with a 1 as one
        more dimension if the model is calibrated."""
        if self.calibration is None:
            return vectors
        return np.concatenate([vectors, np.ones((len(vectors), 1), np.float32)], axis=1)

    def reference(self, folder: Path) -> VectorRef:
        """The documents for another process, with the calibration as one more dimension; what
        that needs is written to `folder`."""
        ref = self.documents.reference(folder)
        if self.calibration is None:
            return ref
        path = folder / "calibration.npy"
        try:
            np.save(path, self.calibration.column)
        except OSError as error:
            raise storage_error(error, str(path)) from error
        return replace(ref, column_path=str(path.resolve()))

    def _find(self, vectors: NDArray[np.float32], k: int) -> Found:
        rows, scores = self._searcher.search(self.compared(vectors), k)
        if isinstance(self._searcher, Certifies):
            self.notes += self._searcher.tally.take_notes()
        bank = self._opening.bank
        if bank.bank_ids is not None:
            ids, meaning = bank.bank_ids[rows], "the ids of the bank"
        elif bank.bank_rows is None:
            ids, meaning = rows, "rows of the bank"
        else:
            ids, meaning = bank.bank_rows[rows], f"rows of {' followed by '.join(_parts(bank))}"
        return Found(ids=ids, scores=scores, ids_are=meaning, rows=rows)

    @cached_property
    def _searcher(self) -> Miner:
        context = MinerContext(
            threads=miner_threads(self.config.miner, self._policy.threads),
            seed=0,
            deterministic=True,
            budget_bytes=memory_budget(self.config.memory.budget),
            cache=str(cache_dir()) if self.documents.fixed else None,
        )
        documents = self._finished_documents  # closed after the miner that reads them
        miner = plugins.usable("miner", "exact").create(NoOptions(), context)
        self._to_close.callback(miner.close)
        miner.build(documents, self._scratch)
        return miner

    @cached_property
    def _scratch(self) -> Path:
        return Path(self._to_close.enter_context(tempfile.TemporaryDirectory(prefix="ttf-")))

    @cached_property
    def _finished_documents(self) -> VectorSource:
        opened = open_ref(self.reference(self._scratch))
        self._to_close.callback(opened.close)
        return opened.source

    @cached_property
    def _val(self) -> Split:
        return self._opening.judged()

    def evaluate(self, ks: Sequence[int]) -> dict[str, Any]:
        """Metrics of the validation pairs against the full bank."""
        queries = self._val.queries
        self._check_fits(queries)
        metrics: dict[str, Any] = {"metrics": self._metrics(self.documents, ks)}
        if self.calibration is not None:
            corrected = Corrected(self.documents, self.calibration.column)
            metrics = {
                "metrics": self._metrics(corrected, ks),
                "metrics_uncalibrated": metrics["metrics"],
                "calibration": {"on": True, "a": self.calibration.a},
            }
        return {
            **metrics,
            "queries": len(self._val),
            "bank": self.documents.rows,
            "left_out": self._val.left_out,
            "notes": [*self.notes, *self._opening.notes],
        }

    def _metrics(self, documents: Documents | Corrected, ks: Sequence[int]) -> dict[str, float]:
        return evaluate(
            self.towers,
            self._val,
            documents,
            self._policy,
            self._precision,
            _MICRO_BATCH,
            ks,
        )

    def subject(self, folder: RunFolder) -> Subject:
        """What `ttf calibrate` calibrates."""
        return Subject(
            folder=folder,
            model=self.towers,
            weights_sha256=_facts(folder).get("weights_sha256", ""),
            documents=self.documents,
            bank=self._opening.bank.bank,
            policy=self._policy,
            precision=self._precision,
            micro_batch=_MICRO_BATCH,
            seed=self.config.train.seed,
            settings=self.config.calibrate,
        )

    @cached_property
    def train(self) -> Split:
        """The training pairs."""
        return self._opening.split("train")

    def close(self) -> None:
        self._to_close.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _checked_lengths(lengths: NDArray[Any], shape: tuple[int, ...]) -> NDArray[np.int64]:
    longest = shape[1] if len(shape) == 3 else 1
    if lengths.shape != shape[:1] or lengths.dtype.kind not in "iu":
        raise BadData(
            f"The lengths have the type {lengths.dtype} and the shape {lengths.shape}. They must "
            f"be integers, one for each of the {shape[0]:,} queries."
        )
    wrong = np.flatnonzero((lengths < 1) | (lengths > longest))
    if wrong.size:
        raise BadData(
            f"lengths[{wrong[0]}] is {lengths[wrong[0]]}, but it must be between 1 and {longest}."
        )
    return lengths.astype(np.int64)


def _parts(bank: OpenBank) -> list[str]:
    """The arrays whose distinct rows are the bank."""
    return bank.bank.name.split("+")


def in_a_table(found: Found) -> tuple[NDArray[np.int64], str]:
    """The ids as a file of numbers holds them, and what they mean: rows where ids are strings."""
    if np.issubdtype(found.ids.dtype, np.integer):
        return found.ids.astype(np.int64, copy=False), found.ids_are
    return found.rows, "row numbers of the bank, not its ids, because its ids are strings"


def _write(out: Path, found: Found) -> None:
    with written_store(str(out)) as writer:
        writer.array("ids", found.ids.shape, "int64").append(in_a_table(found)[0])
        writer.array("scores", found.scores.shape, "float32").append(found.scores)
