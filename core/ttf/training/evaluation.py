"""Recall@k, MRR@10 and nDCG@10 against the full bank: exact, in blocks, without a top-k list.

The rank of a document is the number of bank rows that score higher (equal scores: the smaller row
first). If the processor multiplies bfloat16, that product and its error bound
(`ttf.mining.scan.error_bounds`) count or rule out most rows; float32 decides about the others. A
query with too many undecided rows (its document is far from the top) is counted in float32
altogether. Each block's scores are reduced to maxima over groups of 64, and only groups that can
hold a better row are read: counting would otherwise cost more than the product.

Shapes: Q queries, B of a tile, N rows of a block, P positives, G groups, M rows of a group, K
pairs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from ttf.contracts import DevicePolicy, Precision, Progress
from ttf.data.dataset import Split
from ttf.machine.gemm import padded
from ttf.machine.processor import FirstPass, first_pass
from ttf.mining.scan.error_bounds import SAFE, Asked, asked, rounded
from ttf.mining.scan.grouped_block import GROUPS, Block
from ttf.training.documents import Corrected, Documents
from ttf.training.encoded_queries import encode_split
from ttf.training.team import ALONE, Team
from ttf.training.towers import TwoTower

CUTOFF = 10
_TILE_ROWS = 1024
# With fewer queries the bank read is the limit, and rounding the bank would only add to it.
_ENOUGH_QUERIES = 128
# A query goes over to float32 if bfloat16 leaves more than one row in this many undecided.
_CROWD = 128
# Scores this close, relative to the vector lengths, are equal: rounding makes two products of the
# same vectors differ.
TIE = 1e-6


def metrics_from_ranks(
    ranks_QP: NDArray[np.int64], ks: Sequence[int], grades_QP: NDArray[np.float32] | None = None
) -> dict[str, float]:
    """Means over the queries. Ranks count from 0; -1 is padding. Recall is the share of a query's
    positives that is found; MRR takes the best positive. Grades are the gains of nDCG, as they are
    (linear, as trec_eval has it); without them each positive counts 1.

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
    if grades_QP is None:
        ideal = np.cumsum(1.0 / np.log2(np.arange(CUTOFF) + 2.0))
        dcg = gains.sum(axis=1) / ideal[np.minimum(number, CUTOFF) - 1]
    else:
        dcg = (gains * grades_QP).sum(axis=1) / _ideal_gain(np.where(present, grades_QP, 0))
    out[f"ndcg@{CUTOFF}"] = float(dcg.mean())
    return out


def _ideal_gain(grades_QP: NDArray[np.float32]) -> NDArray[np.float64]:
    """The discounted gain of the best order; 1 for a query without a positive."""
    best_QP = -np.sort(-grades_QP.astype(np.float64), axis=1)[:, :CUTOFF]
    found: NDArray[np.float64] = best_QP @ (1.0 / np.log2(np.arange(best_QP.shape[1]) + 2.0))
    return np.where(found > 0, found, 1.0)


def evaluate(
    model: TwoTower,
    split: Split,
    documents: Documents | Corrected,
    policy: DevicePolicy,
    precision: Precision,
    micro_batch: int,
    ks: Sequence[int],
    progress: Progress | None = None,
    team: Team = ALONE,
) -> dict[str, float]:
    """Metrics of a split against the full bank; `progress` counts bank rows and may raise.

    Processes share whole tiles of queries. Blocks of the bank are not shared: which queries go over
    to float32 depends on all blocks before.
    """
    rows = np.arange(len(split), dtype=np.int64)

    def encode(part: range) -> NDArray[np.float32]:
        own = rows[part.start : part.stop]
        return encode_split(model, split, own, policy, precision, micro_batch)

    encoded = team.whole("encoded queries", len(rows), micro_batch, encode)
    q_QD = documents.compared(torch.from_numpy(encoded))
    known = split.known(rows)

    def rank(part: range) -> NDArray[np.int64]:
        here = slice(part.start, part.stop)
        scores_QP, lengths_QP = _scores_and_lengths(q_QD, known, documents, part)
        blocks = _reported(documents.blocks(), documents.rows, progress)
        ties_QP, queries = TIE * lengths_QP, len(rows)
        return ranks_in_blocks(q_QD[here], scores_QP, ties_QP, known[here], blocks, of=queries)

    ranks = team.whole("ranks", len(rows), _TILE_ROWS, rank)
    return metrics_from_ranks(ranks, ks, split.graded(rows))


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
    """Score of each query with each of its positives; -inf for padding."""
    return _scores_and_lengths(q_QD, known_QP, documents)[0]


def lowest_positive_scores(
    queries_QD: NDArray[np.float32], known_QP: NDArray[np.int64], documents: Documents
) -> NDArray[np.float32]:
    """Of each query's positives; infinity if it has none."""
    q_QD = torch.from_numpy(np.array(queries_QD))
    scores = positive_scores(q_QD, known_QP, documents)
    present = torch.from_numpy(known_QP >= 0)
    found: NDArray[np.float32] = torch.where(present, scores, torch.inf).amin(1).numpy()
    return found


def _scores_and_lengths(
    q_QD: torch.Tensor,
    known_QP: NDArray[np.int64],
    documents: Documents | Corrected,
    part: range | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Scores of the queries of a part, and the product of both vectors' lengths: rounding errors
    are relative to it."""
    rows = documents.block_rows
    wanted = range(len(q_QD)) if part is None else part
    # Whole blocks: vectors of a trained tower depend on those that are encoded with them.
    first = wanted.start // rows * rows
    scores_QP = torch.full((wanted.stop - first, known_QP.shape[1]), -torch.inf)
    lengths_QP = torch.zeros(scores_QP.shape)
    for start in range(first, wanted.stop, rows):
        here = slice(start, start + rows)
        scores, lengths = _of_block(q_QD[here], known_QP[here], documents)
        own = slice(start - first, start - first + rows)
        scores_QP[own] = scores[: wanted.stop - start]
        lengths_QP[own] = lengths[: wanted.stop - start]
    return scores_QP[wanted.start - first :], lengths_QP[wanted.start - first :]


def _of_block(
    q_BD: torch.Tensor, known_BP: NDArray[np.int64], documents: Documents | Corrected
) -> tuple[torch.Tensor, torch.Tensor]:
    scores_BP = torch.full(known_BP.shape, -torch.inf)
    lengths_BP = torch.zeros(known_BP.shape)
    for column in range(known_BP.shape[1]):
        there = np.flatnonzero(known_BP[:, column] >= 0)
        vectors_KD = documents.vectors(known_BP[there, column])
        q_KD = q_BD[there]
        scores_BP[there, column] = (q_KD * vectors_KD).sum(-1)
        lengths_BP[there, column] = q_KD.norm(dim=-1) * vectors_KD.norm(dim=-1)
    return scores_BP, lengths_BP


# --- ranks -----------------------------------------------------------------------------------


def ranks_in_blocks(
    q_QD: torch.Tensor,
    positive_scores_QP: torch.Tensor,
    ties_QP: torch.Tensor,
    positives_QP: NDArray[np.int64],
    blocks: Iterable[tuple[int, torch.Tensor]],
    *,
    first: FirstPass | None = None,
    of: int | None = None,
) -> NDArray[np.int64]:
    """Rank (from 0) of each positive, -1 for padding; blocks are (first row, vectors).

    Scores within `ties_QP` of a positive's score count as equal. `first` None: chosen by processor.
    `of`: how many queries there are in all, if these are a part that begins with a whole tile.
    """
    ids_QP = torch.from_numpy(positives_QP)
    # without a positive no row is better, so no group is read
    low_QP = torch.where(ids_QP >= 0, positive_scores_QP - ties_QP, torch.inf)
    high_QP = positive_scores_QP + ties_QP
    half = (first or first_pass()) == "bf16" and (of or len(q_QD)) >= _ENOUGH_QUERIES
    tiles = [
        _Tile(q_QD[at], low_QP[at], high_QP[at], ids_QP[at], half=half)
        for at in (slice(s, s + _TILE_ROWS) for s in range(0, len(q_QD), _TILE_ROWS))
    ]
    for start, docs_ND in blocks:
        block = _rounded_block(start, docs_ND) if any(len(tile.near) for tile in tiles) else None
        padded_ND = _padded(docs_ND)
        for tile in tiles:
            if block is not None and len(tile.near):
                tile.count_near(block, docs_ND)
            if len(tile.far):
                tile.count_far(padded_ND, len(docs_ND), start, tile.far)
    counts = [tile.counts for tile in tiles] or [torch.zeros_like(ids_QP)]
    ranks: NDArray[np.int64] = torch.where(ids_QP >= 0, torch.cat(counts), -1).numpy()
    return ranks


@dataclass(frozen=True, kw_only=True)
class _Limits:
    low: torch.Tensor
    high: torch.Tensor
    ids: torch.Tensor


class _Tile:
    """Some queries, with the number of better rows found so far for each of their positives."""

    def __init__(
        self,
        q_BD: torch.Tensor,
        low_BP: torch.Tensor,
        high_BP: torch.Tensor,
        ids_BP: torch.Tensor,
        *,
        half: bool,
    ) -> None:
        self._q = q_BD
        self._low = low_BP
        self._high = high_BP
        self._ids = ids_BP
        self.counts = torch.zeros(ids_BP.shape, dtype=torch.int64)
        everyone = torch.arange(len(q_BD))
        # `near`: bfloat16 decides well enough; `far`: counted in float32.
        self.near, self.far = (everyone, everyone[:0]) if half else (everyone[:0], everyone)
        self._asked = self._prepared_near() if half else None

    def _prepared_near(self) -> Asked:
        return asked(self._q[self.near].contiguous().numpy(), half=True)

    def _limits(self, which: torch.Tensor, column: int) -> _Limits:
        return _Limits(
            low=self._low[which, column],
            high=self._high[which, column],
            ids=self._ids[which, column],
        )

    def count_far(
        self, padded_ND: torch.Tensor, count: int, start: int, which: torch.Tensor
    ) -> None:
        scores_BN = (padded(self._q[which]) @ padded_ND.T)[: len(which)]
        scores_BN[:, count:] = -torch.inf
        for column in range(self._ids.shape[1]):
            limits = self._limits(which, column)
            self.counts[which, column] += _count_better(scores_BN, limits, start)

    def count_near(self, block: Block, docs_ND: torch.Tensor) -> None:
        # Queries with too many undecided rows move to `far`, from this block on.
        assert self._asked is not None
        scores_BN = self._asked.scores(block.rows)
        scores_BN[:, block.count :] = -torch.inf
        error_BG = self._asked.error(block.norms_G, block.residuals_G)
        crowded_B = ~(self._asked.lengths * block.longest <= SAFE)
        found = []
        for column in range(self._ids.shape[1]):
            limits = self._limits(self.near, column)
            sure_B, open_K, row_K = _count_certain(scores_BN, error_BG, limits)
            crowded_B |= torch.bincount(open_K, minlength=len(self.near)) * _CROWD > block.count
            found.append((limits, sure_B, open_K, row_K))
        for column, (limits, sure_B, open_K, row_K) in enumerate(found):
            stay_K = ~crowded_B[open_K]
            open_K, row_K = open_K[stay_K], row_K[stay_K]
            scores_K = _pair_scores(self._q, self.near[open_K], docs_ND, row_K)
            better_K = _is_better(scores_K, limits, open_K, row_K + block.first)
            sure_B.index_add_(0, open_K, better_K.long())
            self.counts[self.near, column] += torch.where(crowded_B, 0, sure_B)
        if bool(crowded_B.any()):
            self.far = torch.cat([self.far, self.near[crowded_B]])
            self._keep_near(~crowded_B)

    def _keep_near(self, stay_B: torch.Tensor) -> None:
        self.near = self.near[stay_B]
        self._asked = self._prepared_near()


def _count_certain(
    scores_BN: torch.Tensor, error_BG: torch.Tensor, limits: _Limits
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Returns, per query, how many rows certainly beat the positive, and the undecided pairs
    (query, row).

    Rounding to bfloat16 is monotone, so a limit is rounded like the scores. One step more is added,
    because the limit itself is a rounded sum.
    """
    groups_BGM = scores_BN.view(len(scores_BN), -1, GROUPS).transpose(1, 2)
    low_BG = _moved_limit(limits.low, -(2.0**-21))[:, None] - error_BG
    high_BG = _moved_limit(limits.high, 2.0**-21)[:, None] + error_BG
    low_BG, high_BG = low_BG.to(scores_BN.dtype), high_BG.to(scores_BN.dtype)
    query_K, group_K = (groups_BGM.amax(-1) >= low_BG).nonzero(as_tuple=True)
    found_KM = groups_BGM[query_K, group_K]
    sure_KM = found_KM > high_BG[query_K, group_K, None]
    open_KM = (found_KM >= low_BG[query_K, group_K, None]) & ~sure_KM
    sure_B = torch.zeros(len(scores_BN), dtype=torch.int64)
    sure_B.index_add_(0, query_K, sure_KM.sum(-1))
    at_K, member_K = (torch.from_numpy(a) for a in np.nonzero(open_KM.numpy()))
    return sure_B, query_K[at_K], member_K * GROUPS + group_K[at_K]


def _moved_limit(limit_B: torch.Tensor, by: float) -> torch.Tensor:
    """Moves limits by a share of their size; infinite limits (no positive) stay."""
    return torch.where(limit_B.isinf(), limit_B, limit_B + limit_B.abs() * by)


def _pair_scores(
    q_BD: torch.Tensor, query_K: torch.Tensor, docs_ND: torch.Tensor, row_K: torch.Tensor
) -> torch.Tensor:
    parts = [
        (q_BD[query_K[at : at + _TILE_ROWS]] * docs_ND[row_K[at : at + _TILE_ROWS]]).sum(-1)
        for at in range(0, len(query_K), _TILE_ROWS)
    ]
    return torch.cat(parts) if parts else torch.zeros(0)


def _is_better(
    scores_K: torch.Tensor, limits: _Limits, query_K: torch.Tensor, rows_K: torch.Tensor
) -> torch.Tensor:
    """A mask of the pairs that come before the query's positive."""
    better_K = scores_K > limits.high[query_K]
    tied_K = (scores_K >= limits.low[query_K]) & ~better_K
    better_K |= tied_K & (rows_K < limits.ids[query_K])
    return better_K & (rows_K != limits.ids[query_K])


def _rounded_block(start: int, docs_ND: torch.Tensor) -> Block:
    cut = rounded(docs_ND.contiguous())
    return Block(cut.half, start, torch.from_numpy(cut.norms), torch.from_numpy(cut.residuals))


def _padded(docs_ND: torch.Tensor) -> torch.Tensor:
    missing = -len(docs_ND) % GROUPS
    return torch.nn.functional.pad(docs_ND, (0, 0, 0, missing)) if missing else docs_ND


def _count_better(scores_BN: torch.Tensor, limits: _Limits, first: int) -> torch.Tensor:
    """For each query, the number of rows of this block before its positive."""
    groups_BGM = scores_BN.view(len(scores_BN), -1, GROUPS)
    query_K, group_K = (groups_BGM.amax(-1) >= limits.low[:, None]).nonzero(as_tuple=True)
    found_KM = groups_BGM[query_K, group_K]
    rows_KM = first + group_K[:, None] * GROUPS + torch.arange(GROUPS)
    better_KM = _is_better(found_KM, limits, query_K[:, None].expand_as(rows_KM), rows_KM)
    counts_B = torch.zeros(len(scores_BN), dtype=torch.int64)
    return counts_B.index_add_(0, query_K, better_KM.sum(-1))
