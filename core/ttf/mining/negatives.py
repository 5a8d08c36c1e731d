"""Drawing negatives from a candidate table: the positive-aware filter, and its yield.

A candidate survives if its score is below the positive's by a margin (sign-safe: the relative
margin is a share of |s_pos|), its rank is inside the window, and it is no known positive.

Shapes: B sample rows, K candidates of each, P known positives (padded with -1).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from ttf.config.loss_schema import NegativesConfig
from ttf.config.schema import MOST_CANDIDATES_OF_AUTO
from ttf.data.order import hash64
from ttf.errors import ConfigError
from ttf.mining.miner_results import CandidateTable

_REPORT_ROWS = 4096
_LAST = np.uint64(0xFFFFFFFFFFFFFFFF)


def draw(
    table: CandidateTable,
    rows: NDArray[np.int64],
    known_BP: NDArray[np.int64],
    settings: NegativesConfig,
    num: int,
    key: int,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Returns (B, num) bank rows, -1 if a query has too few, and (B,) the number of survivors.

    Without replacement, from the first `draw_from` survivors. A row's draw depends on `key` and the
    row alone, not on its batch.
    """
    at = table.positions(rows)
    found = np.maximum(at, 0)
    if not len(table):
        return np.full((len(rows), num), -1, np.int64), np.zeros(len(rows), np.int64)
    candidates = _Candidates.of(table, found, known_BP)
    ids_BK = candidates.ids_BK
    alive_BK = candidates.survivors(settings)
    alive_BK &= (at >= 0)[:, None]
    kept = alive_BK.sum(axis=1)
    eligible_BK = alive_BK & (alive_BK.cumsum(axis=1) <= settings.draw_from)
    row_key = hash64(rows, key)
    lot_BK = hash64(row_key[:, None] ^ ids_BK.astype(np.uint64), key)
    lot_BK = np.where(eligible_BK, lot_BK, _LAST)
    first = np.argsort(lot_BK, axis=1, kind="stable")[:, :num]
    drawn = np.where(
        np.take_along_axis(eligible_BK, first, axis=1),
        np.take_along_axis(ids_BK, first, axis=1),
        -1,
    )
    missing = num - drawn.shape[1]
    return np.pad(drawn, ((0, 0), (0, max(missing, 0))), constant_values=-1), kept


def ceilings(positive_Q: NDArray[np.float32], settings: NegativesConfig) -> NDArray[np.float32]:
    """(Q,) the scores below which candidates pass the margins: the least float32 numbers that are
    not below what `draw` compares with."""
    limit_Q = np.full(len(positive_Q), np.inf)
    for one_Q in _limits(positive_Q, settings):
        np.minimum(limit_Q, np.where(np.isnan(one_Q), -np.inf, one_Q), out=limit_Q)
    with np.errstate(over="ignore"):
        found_Q = limit_Q.astype(np.float32)
        lower_Q = found_Q < limit_Q
        found_Q[lower_Q] = np.nextafter(found_Q[lower_Q], np.float32(np.inf))
    return found_Q


def _limits(
    positive_Q: NDArray[np.float32], settings: NegativesConfig
) -> Iterator[NDArray[np.float64]]:
    """What scores must be below, for each margin; NaN: no score is."""
    wide_Q = positive_Q.astype(np.float64)
    if settings.absolute_margin is not None:
        yield wide_Q - settings.absolute_margin
    if settings.relative_margin is not None:
        with np.errstate(invalid="ignore"):
            yield wide_Q - settings.relative_margin * np.abs(wide_Q)


def has_margin(settings: NegativesConfig) -> bool:
    return settings.relative_margin is not None or settings.absolute_margin is not None


def candidates_needed(
    settings: NegativesConfig, positives: int, *, passing: bool
) -> tuple[int, str]:
    """How many candidates of a query a draw can use, and why; `positives`: known ones of a query;
    `passing`: only documents below the margins are candidates."""
    without_margin = settings.rank_from + settings.draw_from + positives
    number, why = (
        without_margin,
        (
            f"negatives are drawn from {settings.draw_from} of them, from rank {settings.rank_from} on, "
            f"besides {positives} known positive{'s' * (positives != 1)}"
        ),
    )
    if has_margin(settings) and not passing:
        # Measured (docs/decisions/0026): with 128, 3.5 points fewer of the queries have a negative.
        number = max(number, MOST_CANDIDATES_OF_AUTO)
        why = (
            "the margin keeps candidates below the positive only, whose rank may be any; with fewer, "
            "more queries have none"
        )
    if settings.rank_to is not None and settings.rank_to < number:
        return settings.rank_to, f"negatives.rank_to is {settings.rank_to}"
    return number, why


def drawable(
    table: CandidateTable,
    rows: NDArray[np.int64],
    known_BP: NDArray[np.int64],
    settings: NegativesConfig,
) -> NDArray[np.int64]:
    """(B, K) bank rows that `draw` may draw, the best first; the others are -1."""
    at = table.positions(rows)
    candidates = _Candidates.of(table, np.maximum(at, 0), known_BP)
    alive_BK = candidates.survivors(settings) & (at >= 0)[:, None]
    alive_BK &= alive_BK.cumsum(axis=1) <= settings.draw_from
    return np.where(alive_BK, candidates.ids_BK, -1)


@dataclass(frozen=True, kw_only=True)
class YieldReport:
    queries: int
    kept_share: float  # Of all candidates that were found.
    with_survivor: float  # Share of queries with at least one survivor.
    survivors: dict[str, float]  # Quantiles of survivors per query: p10, p50, p90.
    # The largest relative margin that leaves the wanted share of the queries a survivor; None if no
    # margin does.
    suggested_margin: float | None
    # Mean over the queries of the mean score of the candidates that may be drawn.
    negative_score: float | None = None
    # Of the same queries: the closer the two, the harder the negatives.
    positive_score: float | None = None


def yield_report(
    table: CandidateTable, known_QP: NDArray[np.int64], settings: NegativesConfig
) -> YieldReport:
    # Over all queries of the table; `known_QP` in the order of `table.rows`.
    kept = np.zeros(len(table), np.int64)
    there = 0
    largest = np.full(len(table), -np.inf)
    hardness = np.full((len(table), 2), np.nan)
    for start in range(0, len(table), _REPORT_ROWS):
        here = slice(start, start + _REPORT_ROWS)
        candidates = _Candidates.of(table, here, known_QP[here])
        alive = candidates.survivors(settings)
        kept[here] = alive.sum(axis=1)
        there += int((candidates.ids_BK >= 0).sum())
        hardness[here] = candidates.hardness(alive, settings.draw_from)
        largest[here] = candidates.largest_margins(settings)
    share = float((kept > 0).mean()) if len(table) else 0.0
    per_query = {
        f"p{q}": float(np.quantile(kept, q / 100)) if len(table) else 0.0 for q in (10, 50, 90)
    }
    return YieldReport(
        queries=len(table),
        kept_share=float(kept.sum() / max(there, 1)),
        with_survivor=share,
        survivors=per_query,
        suggested_margin=_margin_reaching(largest, settings.wanted_yield),
        negative_score=_finite_mean(hardness[:, 0]),
        positive_score=_finite_mean(hardness[:, 1]),
    )


def remark_on_yield(table: CandidateTable, report: YieldReport, settings: NegativesConfig) -> str:
    """What the user must know if fewer queries than wanted have a survivor; else ''.

    Raises ConfigError if the user set the floor (`min_yield`) and the tower is trained enough to be
    held to it.
    """
    if report.with_survivor >= settings.wanted_yield:
        return ""
    if table.passing:
        return _few_below(report, settings, table.within)
    in_reach = share_in_reach(table)
    if in_reach < settings.wanted_yield:
        return (
            f"the tower finds the positive among the {table.ids.shape[1]} best documents for only "
            f"{in_reach:.1%} of the queries. It is not trained enough yet to choose mined "
            "negatives, so few of them are used. Training continues with the other negatives."
        )
    if settings.min_yield != "auto":
        raise ConfigError(
            f"{_too_few(report, settings)} negatives.min_yield "
            f"requires that {settings.min_yield:.1%} of the queries keep one.",
            hint=f"{_more_negatives(report, settings)}, or train without mined negatives "
            "(--set miner.negatives=0).",
        )
    return (
        f"{_too_few(report, settings)} The run continues. The other queries train without mined "
        f"negatives. To change this: {_more_negatives(report, settings)}."
    )


def _few_below(report: YieldReport, settings: NegativesConfig, within: int | None) -> str:
    margins = {
        "negatives.relative_margin": settings.relative_margin,
        "negatives.absolute_margin": settings.absolute_margin,
    }
    set_to = ", ".join(f"{name} = {value}" for name, value in margins.items() if value is not None)
    few = (
        f"Only {report.with_survivor:.1%} of {report.queries:,} queries have a document "
        f"{f'among the {within} nearest ' if within else ''}whose score is below that of the positive "
        f"by the margin ({set_to})."
    )
    if within:
        few += " A tower that is not trained enough yet finds the positives further down."
    lower = "Lower the margin (for example --set negatives.relative_margin=0.01)"
    if settings.min_yield != "auto":
        raise ConfigError(
            f"{few} negatives.min_yield requires that {settings.min_yield:.1%} of the queries have "
            "one.",
            hint=f"{lower}, or train without mined negatives (--set miner.negatives=0).",
        )
    return f"{few} The run continues: they train without mined negatives. {lower}."


def share_in_reach(table: CandidateTable) -> float:
    """Share of queries whose positive scores at least as high as the last candidate.

    If it is low, the tower is not trained yet, and a low yield says nothing about the filter.
    """
    if not len(table):
        return 0.0
    return float((table.positive_scores >= table.scores[:, -1]).mean())


def _too_few(report: YieldReport, settings: NegativesConfig) -> str:
    filters = [f"negatives.relative_margin = {settings.relative_margin}"]
    if settings.absolute_margin is not None:
        filters.append(f"negatives.absolute_margin = {settings.absolute_margin}")
    if settings.rank_from or settings.rank_to:
        filters.append(f"ranks {settings.rank_from} to {settings.rank_to or 'the last'}")
    return (
        f"Only {report.with_survivor:.1%} of {report.queries:,} queries still have a mined "
        f"negative after the filter. The filter kept {report.kept_share:.2%} of all candidates. "
        f"Its settings: {', '.join(filters)}. It removes known positives, and candidates that are "
        "too similar to the positive."
    )


def _more_negatives(report: YieldReport, settings: NegativesConfig) -> str:
    if report.suggested_margin is None:
        return (
            "No value of negatives.relative_margin is sufficient: mine more candidates per "
            "query (--set miner.k=N)"
        )
    return (
        f"--set negatives.relative_margin={report.suggested_margin:.4g} leaves a "
        f"negative for {settings.wanted_yield:.0%} of the queries"
    )


@dataclass(frozen=True, kw_only=True)
class _Candidates:
    """Some rows of a table, and the known positives of their queries."""

    ids_BK: NDArray[np.int64]
    scores_BK: NDArray[np.float32]
    positive_B: NDArray[np.float32]
    known_BP: NDArray[np.int64]

    @classmethod
    def of(
        cls, table: CandidateTable, which: slice | NDArray[np.int64], known_BP: NDArray[np.int64]
    ) -> Self:
        return cls(
            ids_BK=np.asarray(table.ids[which]),
            scores_BK=table.scores[which],
            positive_B=table.positive_scores[which],
            known_BP=known_BP,
        )

    def without_margin(self, settings: NegativesConfig) -> NDArray[np.bool_]:
        """Mask (B, K): survives all conditions but the relative margin."""
        num = self.ids_BK.shape[1]
        ranks = np.arange(num)
        last = num if settings.rank_to is None else settings.rank_to
        inside = (ranks >= settings.rank_from) & (ranks < last)
        positive_BK = (self.ids_BK[:, :, None] == self.known_BP[:, None, :]).any(axis=2)
        alive_BK: NDArray[np.bool_] = inside & ~positive_BK & (self.ids_BK >= 0)
        if settings.absolute_margin is not None:
            limit_B = self.positive_B.astype(np.float64) - settings.absolute_margin
            alive_BK &= self.scores_BK < limit_B[:, None]
        return alive_BK

    def survivors(self, settings: NegativesConfig) -> NDArray[np.bool_]:
        alive_BK = self.without_margin(settings)
        if settings.relative_margin is not None:
            positive_B = self.positive_B.astype(np.float64)
            limit_B = positive_B - settings.relative_margin * np.abs(positive_B)
            alive_BK &= self.scores_BK < limit_B[:, None]
        return alive_BK

    def largest_margins(self, settings: NegativesConfig) -> NDArray[np.float64]:
        """(B,) the relative margin below which a query has a survivor; -inf if it never has."""
        alive_BK = self.without_margin(settings)
        lowest = np.where(alive_BK, self.scores_BK, np.inf).min(axis=1, initial=np.inf)
        positive = self.positive_B.astype(np.float64)
        with np.errstate(divide="ignore", invalid="ignore"):
            margin = (positive - lowest.astype(np.float64)) / np.abs(positive)
        return np.where(np.isnan(margin), -np.inf, margin)

    def hardness(self, alive_BK: NDArray[np.bool_], draw_from: int) -> NDArray[np.float64]:
        """(B, 2): mean score of what may be drawn, and of the positive; NaN if nothing may be
        drawn."""
        drawable_BK = alive_BK & (alive_BK.cumsum(axis=1) <= draw_from)
        count_B = drawable_BK.sum(axis=1)
        total_B = np.where(drawable_BK, self.scores_BK, 0.0).sum(axis=1, dtype=np.float64)
        mean_B = np.where(count_B > 0, total_B / np.maximum(count_B, 1), np.nan)
        return np.stack([mean_B, np.where(count_B > 0, self.positive_B, np.nan)], axis=1)


def _margin_reaching(largest_Q: NDArray[np.float64], share: float) -> float | None:
    needed = math.ceil(share * len(largest_Q))
    if not 0 < needed <= len(largest_Q):
        return None
    edge = min(float(np.sort(largest_Q)[-needed]), 1.0)
    if edge == -math.inf:
        return None
    # Strictly below the edge, on a grid that prints with four digits.
    margin = min(math.floor((edge - 1e-9) * 1e4) / 1e4, 0.9999)
    return margin if margin >= 0 else None


def _finite_mean(values: NDArray[np.float64]) -> float | None:
    known = values[np.isfinite(values)]
    return float(known.mean()) if known.size else None
