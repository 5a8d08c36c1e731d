"""The measured table of miners: its rows, its files, and the cost model set against it."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from ttf.config.schema import MinerConfig
from ttf.contracts import MinerContext, MinerCost
from ttf.host import plugins
from ttf.mining.choose import EXACT, Offer, choose_miner, winner

REFRESHES = (1, 10, 100)
"""Rounds of mining a frozen bank's index is built for once."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One miner with its options, searched with some queries on one bank."""

    bank: str
    rows: int
    dim: int
    queries: int
    k: int
    arm: str
    miner: str
    options: dict[str, Any]
    threads: int
    deterministic: bool
    build_s: float
    search_s: float
    search_low: float
    search_high: float
    repeats: int
    recall: float
    faster_than_exact: str
    machine: str
    date: str

    @property
    def line(self) -> str:
        """What it shares with the arms that differ in how far they look."""
        words = self.arm.split()
        return " ".join(words[:-1]) if words[-1].isdigit() else self.arm

    @property
    def context(self) -> MinerContext:
        return MinerContext(
            threads=self.threads, seed=0, deterministic=self.deterministic, budget_bytes=12 << 30
        )

    def brief(self) -> str:
        return (
            f"{self.bank}, {self.queries:,} queries: {self.arm}: build {self.build_s:.2f} s, search "
            f"{self.search_s:.2f} s ({self.search_low:.2f} to {self.search_high:.2f}, n = "
            f"{self.repeats}), recall {self.recall:.4f}"
        )


def write_rows(path: Path, rows: Sequence[Row]) -> None:
    with path.open("w", newline="") as file:
        table = csv.DictWriter(file, [field.name for field in fields(Row)])
        table.writeheader()
        for row in rows:
            rounded = {k: f"{v:.5g}" if isinstance(v, float) else v for k, v in asdict(row).items()}
            table.writerow({**rounded, "options": json.dumps(row.options)})


def rows_of(path: Path) -> list[Row]:
    with path.open(newline="") as file:
        return [_row(values) for values in csv.DictReader(file)]


def _row(values: dict[str, str]) -> Row:
    made: dict[str, Any] = {}
    for field in fields(Row):
        text = values[field.name]
        match field.type:
            case "int":
                made[field.name] = int(text)
            case "float":
                made[field.name] = float(text)
            case "bool":
                made[field.name] = text == "True"
            case "str":
                made[field.name] = text
            case _:
                made[field.name] = json.loads(text)
    return Row(**made)


def markdown(rows: Sequence[Row]) -> str:
    head = ["bank", "queries", "miner", "build s", "search s (lowest to highest, n)", "total s"]
    lines = _table([*head, "recall@k", "search faster than exact (95%)"])
    for row in rows:
        lines.append(
            f"| {row.bank} | {row.queries:,} | {row.arm} | {row.build_s:.2f} | {row.search_s:.2f} "
            f"({row.search_low:.2f} to {row.search_high:.2f}, {row.repeats}) | "
            f"{row.build_s + row.search_s:.2f} | {row.recall:.4f} | {row.faster_than_exact or '-'} |"
        )
    about = {(row.machine, row.date, row.k) for row in rows}
    lines += ["", *(f"{machine}, {date}, k = {k}" for machine, date, k in sorted(about))]
    return "\n".join(lines)


def predicted(row: Row) -> MinerCost:
    factory = plugins.usable("miner", row.miner)
    options = factory.options_type(**row.options)
    return factory.estimate(row.rows, row.dim, row.queries, row.k, options, row.context)


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """A cell of the table, for so many refreshes: who is picked, and who should be."""

    bank: str
    queries: int
    refreshes: int
    picked: Offer
    """By the model, with the measured cost."""
    best: Offer
    """By the table, with the measured cost."""
    auto: str
    """What `miner = "auto"` says with every option at its default."""

    @property
    def loss(self) -> float:
        """How many times the winner's time the pick takes."""
        return self.picked.total_s(self.refreshes) / self.best.total_s(self.refreshes)


def verdicts(rows: Sequence[Row], *, exact_as_measured: bool = False) -> list[Verdict]:
    """Totals over several refreshes are sums of the measured parts: one build, R searches.

    `exact_as_measured`: the model's word counts for indexes only; the exact scan's depends on the
    processor it is asked on.
    """
    out = []
    for cell in dict.fromkeys((row.bank, row.queries) for row in rows):
        here = [row for row in rows if (row.bank, row.queries) == cell]
        measured = {row.arm: Offer(name=row.arm, cost=_measured(row)) for row in here}
        model = {row.arm: Offer(name=row.arm, cost=predicted(row)) for row in here}
        indexed = [row.arm for row in here if _is_index(row)]
        if EXACT not in measured:
            continue
        if exact_as_measured:
            model[EXACT] = measured[EXACT]
        for refreshes in REFRESHES:
            pick = winner(model[EXACT], [model[arm] for arm in indexed], refreshes)
            best = winner(measured[EXACT], [measured[arm] for arm in indexed], refreshes)
            out.append(
                Verdict(
                    bank=cell[0],
                    queries=cell[1],
                    refreshes=refreshes,
                    picked=measured[pick.name],
                    best=best,
                    auto=_auto(here[0], refreshes),
                )
            )
    return out


def report_check(rows: Sequence[Row]) -> str:
    """Two tables: the model against what was measured, and the picks against the winners."""
    parts = ["build: model / measured", "search: model / measured", "recall: model, measured"]
    lines = _table(["bank", "queries", "miner", *parts])
    for row in rows:
        cost = predicted(row)
        build = f"{cost.build_s / row.build_s:.2f}" if cost.build_s else "-"
        lines.append(
            f"| {row.bank} | {row.queries:,} | {row.arm} | {build} | "
            f"{cost.search_s / row.search_s:.2f} | {cost.recall:.4f}, {row.recall:.4f} |"
        )
    lines += ["", "An index is built once and searched in every refresh: sums of measured parts."]
    head = ["bank", "queries", "refreshes", "the model picks", "s", "the table says", "s"]
    lines += _table([*head, "pick / winner", "auto, default options"])
    for verdict in verdicts(rows):
        picked, best = verdict.picked, verdict.best
        lines.append(
            f"| {verdict.bank} | {verdict.queries:,} | {verdict.refreshes} | {picked.name} | "
            f"{picked.total_s(verdict.refreshes):.1f} | {best.name} | "
            f"{best.total_s(verdict.refreshes):.1f} | {verdict.loss:.2f} | {verdict.auto} |"
        )
    return "\n".join(lines)


def _measured(row: Row) -> MinerCost:
    return replace(predicted(row), build_s=row.build_s, search_s=row.search_s, recall=row.recall)


def _is_index(row: Row) -> bool:
    factory = plugins.usable("miner", row.miner)
    return factory.traits(factory.options_type(**row.options), row.context).has_index


def _auto(row: Row, refreshes: int) -> str:
    name, _ = choose_miner(
        MinerConfig(k=row.k, deterministic=row.deterministic),
        rows=row.rows,
        dim=row.dim,
        queries=row.queries,
        refreshes=refreshes,
        threads=row.threads,
        seed=0,
        budget_bytes=row.context.budget_bytes,
    )
    return name


def _table(head: Sequence[str]) -> list[str]:
    return [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
