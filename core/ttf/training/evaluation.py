"""Recall@k, MRR@10 and nDCG@10 against the full bank, exact; and the gates set on them."""

from __future__ import annotations

import operator
import re
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from ttf.config.schema import Gate
from ttf.contracts import DevicePolicy, EvalRecord, Precision, Progress
from ttf.data.dataset import Split
from ttf.errors import BadData, GateNotMet, NumericFailure
from ttf.training.documents import Documents
from ttf.training.ranks import TIE, ranks_in_blocks
from ttf.training.towers import TwoTower

CUTOFF = 10
_OPERATORS = {">=": operator.ge, ">": operator.gt, "<=": operator.le, "<": operator.lt}


def metrics_from_ranks(ranks_QP: NDArray[np.int64], ks: Sequence[int]) -> dict[str, float]:
    """Means over the queries; ranks count from 0, -1 pads. Recall is the share of a query's
    positives found; for MRR its best one counts.

    >>> metrics_from_ranks(np.array([[0], [1], [50]]), [1, 10])["recall@10"]
    0.6666666666666666
    """
    present = ranks_QP >= 0
    number = np.maximum(present.sum(axis=1), 1)
    out = {}
    for k in ks:
        out[f"recall@{k}"] = float(((present & (ranks_QP < k)).sum(axis=1) / number).mean())
    best = np.where(present, ranks_QP, np.iinfo(np.int64).max).min(axis=1)
    out[f"mrr@{CUTOFF}"] = float(np.where(best < CUTOFF, 1.0 / (best + 1.0), 0.0).mean())
    gains = np.where(present & (ranks_QP < CUTOFF), 1.0 / np.log2(np.maximum(ranks_QP, 0) + 2.0), 0)
    ideal = np.cumsum(1.0 / np.log2(np.arange(CUTOFF) + 2.0))
    dcg = gains.sum(axis=1) / ideal[np.minimum(number, CUTOFF) - 1]
    out[f"ndcg@{CUTOFF}"] = float(dcg.mean())
    return out


@torch.no_grad()
def encode_split(
    model: TwoTower,
    split: Split,
    rows: NDArray[np.int64],
    policy: DevicePolicy,
    precision: Precision,
    micro_batch: int,
    out: NDArray[np.float32] | None = None,
    progress: Progress | None = None,
) -> NDArray[np.float32]:
    """Query vectors of some rows in eval mode; `out` may be a mapped file."""
    model.eval()
    for start in range(0, len(rows), micro_batch):
        here = rows[start : start + micro_batch]
        wanted = len(here)
        if policy.constant_shapes and wanted < micro_batch:
            here = np.resize(here, micro_batch)
        batch = split.batch(here)
        x = policy.to_device(torch.from_numpy(batch.x))
        lengths = None if batch.lengths is None else torch.from_numpy(batch.lengths)
        with policy.autocast(precision):
            q_BD = model.encode_queries(x, lengths)[:wanted].cpu()
        if out is None:
            out = np.empty((len(rows), q_BD.shape[1]), dtype=np.float32)
        if not bool(torch.isfinite(q_BD.sum())):
            _blame(split, here[:wanted], batch.x[:wanted], q_BD)
        out[start : start + len(q_BD)] = q_BD.numpy()
        if progress is not None:
            progress(start + len(q_BD), len(rows))
    assert out is not None
    return out


def _blame(
    split: Split, rows: NDArray[np.int64], x: NDArray[np.float32], q_BD: torch.Tensor
) -> None:
    raise_if_inputs_not_finite(split, rows, x)
    wrong = (~torch.isfinite(q_BD).all(dim=1)).nonzero()
    if len(wrong):
        raise NumericFailure(
            f"The query tower gave a vector that is not finite for {split.name} row "
            f"{split.keep[rows[int(wrong[0])]]}, although its input is finite.",
            hint="The weights have probably diverged: try a smaller --lr.",
        )


def raise_if_inputs_not_finite(
    split: Split, rows: NDArray[np.int64], x: NDArray[np.float32]
) -> None:
    """BadData naming the first row whose input holds NaN or infinity."""
    wrong = np.flatnonzero(~np.isfinite(x.reshape(len(x), -1)).all(axis=1))
    if wrong.size:
        source = split.queries.source
        raise BadData(
            f"{source.name}[{split.keep[rows[wrong[0]]]}] in {source.uri} is not finite "
            f"(NaN or infinite; {wrong.size} of the {len(rows)} rows of this batch).",
            hint=f"See all of them: ttf data inspect --full {source.uri}",
        )


def evaluate(
    model: TwoTower,
    split: Split,
    documents: Documents,
    policy: DevicePolicy,
    precision: Precision,
    micro_batch: int,
    ks: Sequence[int],
    progress: Progress | None = None,
) -> dict[str, float]:
    """Metrics of a split against the full bank; `progress` counts bank rows and may raise."""
    rows = np.arange(len(split), dtype=np.int64)
    q_QD = torch.from_numpy(encode_split(model, split, rows, policy, precision, micro_batch))
    known = split.known(rows)
    scores_QP, lengths_QP = _scores_and_lengths(q_QD, known, documents)
    blocks = _reported(documents.blocks(), documents.rows, progress)
    ranks = ranks_in_blocks(q_QD, scores_QP, TIE * lengths_QP, known, blocks)
    return metrics_from_ranks(ranks, ks)


def _reported(
    blocks: Iterator[tuple[int, torch.Tensor]], rows: int, progress: Progress | None
) -> Iterator[tuple[int, torch.Tensor]]:
    for first, block in blocks:
        yield first, block
        if progress is not None:
            progress(first + len(block), rows)


def positive_scores(
    q_QD: torch.Tensor, known_QP: NDArray[np.int64], documents: Documents
) -> torch.Tensor:
    """Score of each query with each of its positives; -inf where there is none."""
    return _scores_and_lengths(q_QD, known_QP, documents)[0]


def _scores_and_lengths(
    q_QD: torch.Tensor, known_QP: NDArray[np.int64], documents: Documents
) -> tuple[torch.Tensor, torch.Tensor]:
    """Scores, and the product of both vectors' lengths, which their rounding is relative to."""
    scores_QP = torch.full(known_QP.shape, -torch.inf)
    lengths_QP = torch.zeros(known_QP.shape)
    for start in range(0, len(q_QD), documents.block_rows):
        rows = slice(start, start + documents.block_rows)
        for column in range(known_QP.shape[1]):
            there = np.flatnonzero(known_QP[rows, column] >= 0)
            vectors_KD = documents.vectors(known_QP[rows, column][there])
            q_KD = q_QD[rows][there]
            scores_QP[rows][there, column] = (q_KD * vectors_KD).sum(-1)
            lengths_QP[rows][there, column] = q_KD.norm(dim=-1) * vectors_KD.norm(dim=-1)
    return scores_QP, lengths_QP


def check_gates(gates: Sequence[Gate], record: EvalRecord, epoch_done: int) -> None:
    """Raises GateNotMet for the first gate that is due now and not reached."""
    for gate in gates:
        unit, number = gate.at.split()
        reached = epoch_done if unit == "epoch" else record.step
        if reached != int(number):
            continue
        match = re.fullmatch(r"(\S+?) *(>=|>|<=|<) *(\S+)", gate.need)
        assert match is not None
        metric, comparison, bound = match.groups()
        found = record.metrics[metric]
        if not _OPERATORS[comparison](found, float(bound)):
            raise GateNotMet(
                f"The gate at {gate.at} needed {gate.need}, but {metric} is {found:.4f}.",
                hint="The run was stopped early; its last checkpoint is kept (ttf resume).",
            )
