"""Mined negatives during training: when to mine, for which queries, and how to draw.

The steps of a run are cut into windows at the refresh steps. At the start of a window the queries
it will visit are encoded and mined into a candidate table, which is durable before its first use;
a table that a checkpoint names is loaded again, never mined again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ttf.config.schema import MinerConfig, NegativesConfig
from ttf.data.keyed_random import key
from ttf.data.loader import DrawNegatives
from ttf.data.order import Order
from ttf.mining.candidates import CandidateTable
from ttf.mining.negatives import YieldReport, draw, require_yield, yield_report


@dataclass(frozen=True, kw_only=True)
class Window:
    """Steps start..stop share a candidate table, or have none."""

    start: int
    stop: int
    mined: bool


def window_of(step: int, total: int, order: Order, miner: MinerConfig) -> Window:
    """The window a step lies in: a pure function of the configuration."""
    first = order.steps_per_epoch if miner.start == "epoch" else miner.start
    if not miner.negatives:
        return Window(start=0, stop=total, mined=False)
    if step < first:
        return Window(start=0, stop=min(first, total), mined=False)
    every = order.steps_per_epoch if miner.refresh == "epoch" else miner.refresh
    # Epoch refreshes lie at epoch boundaries, wherever the first mined step is.
    origin = 0 if miner.refresh == "epoch" else first
    index = (step - origin) // every
    start = max(first, origin + index * every)
    return Window(start=start, stop=min(origin + (index + 1) * every, total), mined=True)


def share_in_reach(table: CandidateTable) -> float:
    """Share of queries whose positive scores at least as high as the last candidate kept.

    Where it is low the tower is not trained yet, and a low yield says nothing about the filter.
    """
    if not len(table):
        return 0.0
    return float((table.positive_scores >= table.scores[:, -1]).mean())


class Refresher:
    """Keeps the candidate table of the current window; `table_key` goes into checkpoints."""

    def __init__(
        self,
        *,
        order: Order,
        total_steps: int,
        miner: MinerConfig,
        negatives: NegativesConfig,
        folder: Path,
        known: Callable[[NDArray[np.int64]], NDArray[np.int64]],
        mine: Callable[[NDArray[np.int64], int], CandidateTable],
        on_table: Callable[[int, CandidateTable, YieldReport], None],
        note: Callable[[str], None],
    ) -> None:
        self._order, self._total = order, total_steps
        self._miner, self._negatives = miner, negatives
        self._folder, self._known, self._mine, self._on_table = folder, known, mine, on_table
        self._note = note
        self._table: CandidateTable | None = None
        self._window: Window | None = None
        self.table_key = ""

    def __call__(self, step: int) -> tuple[DrawNegatives | None, int]:
        window = window_of(step, self._total, self._order, self._miner)
        if not window.mined:
            self.table_key = ""
            return None, window.stop
        if window != self._window:
            self._table = self._open_or_mine(window, step)
            self._window = window
        assert self._table is not None
        return self._drawer(self._table), window.stop

    def resume(self, table_key: str) -> None:
        """Uses this table for the window the run continues in."""
        self.table_key = table_key

    def table_for(self, step: int) -> str:
        """The table that a run continued at `step` loads; empty where it mines one, or needs none."""
        window = window_of(step, self._total, self._order, self._miner)
        return self.table_key if window.mined and step > window.start else ""

    def _open_or_mine(self, window: Window, step: int) -> CandidateTable:
        if self.table_key and step > window.start:
            return CandidateTable.load(self._folder / self.table_key)
        rows = self._order.rows_between(window.start, window.stop)
        table = self._mine(rows, step)
        report = yield_report(table, self._known(rows), self._negatives)
        self._on_table(step, table, report)
        if share_in_reach(table) >= self._negatives.min_yield:
            require_yield(report, self._negatives)
        elif report.with_survivor < self._negatives.min_yield:
            self._note(
                f"At step {step} the tower finds the positive of only {share_in_reach(table):.1%} "
                f"of the queries among the {table.ids.shape[1]} best documents, so that hardly any "
                "mined candidate can be trusted as a negative yet; the other negatives carry on."
            )
        self.table_key = table.key
        return table

    def _drawer(self, table: CandidateTable) -> DrawNegatives:
        seed, count = self._order.seed, self._miner.negatives

        def negatives(
            step: int, rows: NDArray[np.int64], known: NDArray[np.int64]
        ) -> NDArray[np.int64]:
            ids, _ = draw(table, rows, known, self._negatives, count, key(seed, "negatives", step))
            return ids

        return negatives
