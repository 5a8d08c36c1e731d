"""Which miner wins where: recall against time, building included, and is the cost model right?

Every index is built once, by all threads; then all arms search in turns. `build_s` is the time until
the first answers; `total` is that plus one search of all queries. Recall is against the exact answer
of the first 1,000 queries. An arm that would not fit into --budget-s is left out and said so: nothing
printed is extrapolated. `--check FILE` measures nothing: it sets a table's figures against what
`MinerFactory.estimate` says, and what `miner = "auto"` picks against what the table says, and plots.

    python benchmarks/bench_miners.py --out measured-here
    python benchmarks/bench_miners.py --check benchmarks/measured/miners.csv
"""

from __future__ import annotations

import argparse
import datetime
import gc
import platform
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from miner_banks import Bank, intrinsic_dimension, made, real
from miner_table import Row, markdown, report_check, rows_of, write_rows
from numpy.typing import NDArray
from plots import Line, log_log, save

from ttf.contracts import MinerContext
from ttf.data.sources import VectorRef, open_ref
from ttf.host import plugins
from ttf.tools.bench.paired import in_turns, ratio

K = 200
SMALL, LARGE = 10_000, 100_000
_JUDGED = 1000
_FIRST = 256
_ENOUGH_S = 6.0
"""A round of a cell that takes less is repeated five times, one that takes less than ten times as
much three times, any other once."""
_OTHER_S = 20.0
"""Per bank: making it, opening it, judging recall."""

FAISS_WIDTHS = {"hnsw": ("ef_search", (256, 512, 1024)), "ivf": ("nprobe", (16, 64, 256))}


@dataclass(frozen=True, kw_only=True)
class Arm:
    name: str
    miner: str
    options: dict[str, Any]
    index: str = ""
    """Arms that name the same one search one index."""


def all_arms() -> list[Arm]:
    arms = [
        Arm(name="exact", miner="exact", options={}),
        Arm(name="faiss flat", miner="faiss", options={"kind": "flat"}),
    ]
    for kind, (width, values) in FAISS_WIDTHS.items():
        arms += [
            Arm(
                name=f"faiss {kind} {value}",
                miner="faiss",
                options={"kind": kind, width: value},
                index=f"faiss {kind}",
            )
            for value in values
        ]
    arms += [
        Arm(
            name=f"hnswlib {value}",
            miner="hnswlib",
            options={"ef_search": value},
            index="hnswlib",
        )
        for value in (256, 512, 1024)
    ]
    return arms


class Clock:
    """What of the budget is left, and what was left out for it."""

    def __init__(self, budget_s: float) -> None:
        self._end = time.monotonic() + budget_s
        self.left_out: list[str] = []

    @property
    def left_s(self) -> float:
        return self._end - time.monotonic()

    def fits(self, seconds: float, what: str) -> bool:
        """Says so where it does not."""
        if seconds <= self.left_s:
            return True
        text = f"left out: {what} (about {seconds:,.0f} s, {max(self.left_s, 0):,.0f} s are left)"
        self.left_out.append(text)
        print(text, flush=True)
        return False


class Bench:
    """One bank with its indexes, and the rows measured on it."""

    def __init__(self, bank: Bank, context: MinerContext, clock: Clock, machine: str) -> None:
        self.bank = bank
        self.context = context
        self.clock = clock
        self.machine = machine
        self.rows: list[Row] = []
        self.built: dict[str, tuple[Any, float]] = {}
        self.search_s: dict[str, float] = {}
        """Per query, as measured: what the next cell is expected to take."""
        self.truth: NDArray[np.float32] | None = None
        self._ref = open_ref(VectorRef(bank.uri, "vectors", unit=True))

    def close(self) -> None:
        for miner, _ in self.built.values():
            miner.close()
        self.built.clear()
        self._ref.close()
        gc.collect()

    def expected(self, arm: Arm, queries: int) -> tuple[float, float]:
        """(build, search): as measured where that is known, else as estimated."""
        cost = cost_of(arm.miner, arm.options, self.bank, queries, self.context)
        known = self.search_s.get(arm.name)
        return cost.build_s, cost.search_s if known is None else known * queries

    def build(self, arms: Sequence[Arm], reserve_s: float) -> list[Arm]:
        """The arms whose index was built, cheapest first; `reserve_s` is not ours to spend."""
        ready: list[Arm] = []
        groups = {arm.index or arm.name: arm for arm in arms}
        for group, arm in sorted(groups.items(), key=lambda x: self.expected(x[1], SMALL)[0]):
            build_s, _ = self.expected(arm, SMALL)
            if not self.clock.fits(build_s + reserve_s, f"{self.bank.name}, building {group}"):
                continue
            factory = plugins.usable("miner", arm.miner)
            miner = factory.create(factory.options_type(**arm.options), self.context)
            with tempfile.TemporaryDirectory() as scratch:
                began = time.perf_counter()
                miner.build(self._ref.source, Path(scratch))
                miner.search(self.bank.queries[:_FIRST], K)
                self.built[group] = (miner, time.perf_counter() - began)
            print(f"{self.bank.name}: {group} ready in {self.built[group][1]:.2f} s", flush=True)
            ready += [other for other in arms if (other.index or other.name) == group]
        return ready

    def search(self, arm: Arm, queries: int) -> Any:
        """Other options of one index are other ways to look at it: it is not built again."""
        miner, _ = self.built[arm.index or arm.name]
        if arm.index:
            miner._options = plugins.usable("miner", arm.miner).options_type(**arm.options)
        return miner.search(self.bank.queries[:queries], K)

    def recall(self, arm: Arm) -> float:
        """Share of the true best found; a row as good as the true k-th counts (ties)."""
        if self.truth is None:
            exact = next(a for a in all_arms() if a.name == "exact")
            self.truth = self.search(exact, _JUDGED)[1]
            dimension = intrinsic_dimension(self.truth)
            print(f"{self.bank.name}: {self.bank.how}; intrinsic dimension {dimension:.0f}")
        scores = self.search(arm, _JUDGED)[1]
        return float((scores >= self.truth[:, -1:] - 1e-6).mean())

    def cell(self, arms: Sequence[Arm], queries: int) -> None:
        """All arms that fit, in turns; the largest are left out first."""
        chosen = sorted(arms, key=lambda a: self.expected(a, queries)[1])
        while chosen and not self.clock.fits(
            self._round_s(chosen, queries),
            f"{self.bank.name}, {queries:,} queries: {chosen[-1].name}",
        ):
            chosen.pop()
        if not chosen:
            return
        round_s = self._round_s(chosen, queries)
        repeats = next(
            n
            for n, most in ((5, _ENOUGH_S), (3, 10 * _ENOUGH_S), (1, float("inf")))
            if round_s <= most and (n == 1 or n * round_s <= 0.6 * self.clock.left_s)
        )
        calls: dict[str, Callable[[], object]] = {
            arm.name: partial(self.search, arm, queries) for arm in chosen
        }
        seconds = in_turns(calls, repeats, warm=0)
        for arm in chosen:
            taken = seconds[arm.name]
            self.search_s[arm.name] = float(np.median(taken)) / queries
            above = seconds.get("exact")
            faster = None if above is None or len(taken) < 3 else ratio(above, taken)
            self.rows.append(
                Row(
                    bank=self.bank.name,
                    rows=self.bank.rows,
                    dim=self.bank.dim,
                    queries=queries,
                    k=K,
                    arm=arm.name,
                    miner=arm.miner,
                    options=arm.options,
                    threads=self.context.threads,
                    deterministic=self.context.deterministic,
                    build_s=self.built[arm.index or arm.name][1],
                    search_s=float(np.median(taken)),
                    search_low=min(taken),
                    search_high=max(taken),
                    repeats=len(taken),
                    recall=self.recall(arm),
                    faster_than_exact="" if faster is None else str(faster),
                    machine=self.machine,
                    date=datetime.date.today().isoformat(),
                )
            )
            print(self.rows[-1].brief(), flush=True)

    def _round_s(self, arms: Sequence[Arm], queries: int) -> float:
        return sum(self.expected(arm, queries)[1] for arm in arms)


def cost_of(
    name: str, options: dict[str, Any], bank: Bank, queries: int, context: MinerContext
) -> Any:
    factory = plugins.usable("miner", name)
    given = factory.options_type(**options)
    return factory.estimate(bank.rows, bank.dim, queries, K, given, context)


def machine_name(threads: int) -> str:
    names = {
        line.partition(":")[2].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    }
    return f"{'/'.join(sorted(names)) or platform.processor()}, {threads} threads"


def measure(given: argparse.Namespace, scratch: Path) -> tuple[list[Row], list[str]]:
    clock = Clock(given.budget_s)
    context = MinerContext(
        threads=given.threads,
        seed=0,
        deterministic=given.deterministic,
        budget_bytes=12 << 30,
        cache=str(scratch / "cache"),
    )
    arms = [arm for arm in all_arms() if plugins.usable("miner", arm.miner).availability().ok]
    arms = [
        arm for arm in arms if not given.arms or any(arm.name.startswith(a) for a in given.arms)
    ]
    made_bank = partial(made, scratch, given.rows, given.dim, LARGE)
    banks: dict[str, Callable[[], Bank]] = {"small": made_bank, "large": made_bank}
    if (given.data / "bank.npz").exists():
        banks["small"] = partial(real, given.data, LARGE)
    else:
        banks["small"] = partial(made, scratch, 50_000, 384, LARGE)
    rows: list[Row] = []
    for place, name in enumerate(given.banks):
        if not clock.fits(_OTHER_S, f"the {name} bank"):
            continue
        bench = Bench(banks[name](), context, clock, machine_name(given.threads))
        later = given.budget_s * 0.65 if place + 1 < len(given.banks) else 0.0
        clock._end -= later  # the largest bank gets the larger share of the budget
        ready = bench.build(arms, _OTHER_S)
        for queries in given.queries:
            bench.cell(ready, queries)
        clock._end += later
        rows += bench.rows
        bench.close()
    return rows, clock.left_out


def plot(rows: Sequence[Row], folder: Path) -> None:
    """Total time against recall: a figure a cell, a line a miner."""
    figures = []
    names = sorted({row.line for row in rows})
    for cell in dict.fromkeys((row.bank, row.queries) for row in rows):
        here = [row for row in rows if (row.bank, row.queries) == cell]
        lines = []
        for colour, name in enumerate(names):
            points = sorted(
                (max(1 - row.recall, 1e-4), row.build_s + row.search_s, row.arm)
                for row in here
                if row.line == name
            )
            lines.append(Line(name=name, points=[(x, y) for x, y, _ in points], colour=colour))
        figures.append(
            log_log(
                f"{cell[0]}, {cell[1]:,} queries, k = {K}",
                lines,
                x_label="share of the true best that is missed (left is better; exact: 0.0001)",
                y_label="s, build + search",
            )
        )
    save(folder / "miners.svg", figures)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("measured-miners"))
    parser.add_argument("--data", type=Path, default=Path("../shared/data/wordnet-definitions"))
    parser.add_argument(
        "--rows",
        type=int,
        default=200_000,
        help="of the made bank; graphs over 500000 x 768 take 5 minutes each to build",
    )
    parser.add_argument("--dim", type=int, default=768, help="of the made bank")
    parser.add_argument(
        "--banks", nargs="+", choices=("small", "large"), default=["small", "large"]
    )
    parser.add_argument("--queries", nargs="+", type=int, default=[SMALL, LARGE])
    parser.add_argument("--arms", nargs="*", help="only those whose names begin so")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--deterministic", action="store_true", help="graphs built by one thread")
    parser.add_argument("--budget-s", type=float, default=1140.0)
    parser.add_argument("--check", type=Path, help="a table measured before: compare, then end")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    if given.check is not None:
        print(report_check(rows_of(given.check)))
        plot(rows_of(given.check), given.out)
        return
    with tempfile.TemporaryDirectory(dir=given.out) as scratch:
        rows, left_out = measure(given, Path(scratch))
    write_rows(given.out / "miners.csv", rows)
    text = "\n".join([markdown(rows), "", *left_out, "", report_check(rows)])
    (given.out / "miners.md").write_text(text)
    print(text)
    if rows:
        plot(rows, given.out)


if __name__ == "__main__":
    main()
