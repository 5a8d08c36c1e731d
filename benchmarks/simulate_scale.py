"""Many nodes for many days, simulated: is the goodput what the plan says, and does a run ever stick?

    python benchmarks/simulate_scale.py [--days 30] [--repeats 3] [--seeds 10000] [--nodes 1000]

Prints a table of docs/performance.md and the ends of short, hard runs. The decisions are those of
`ttf.supervise`; what is simulated is in tests/kit/simulated_nodes.py. Exit code 1: a bar is missed.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.kit.simulated_fleet import DAY_S, Fleet, expected_goodput, harsh
from tests.kit.simulated_nodes import simulate

_LEAST = 0.99
_CLOSE = 0.002


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--days", type=float, default=30.0)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seeds", type=int, default=10_000)
    parser.add_argument("--first-seed", type=int, default=0)
    args = parser.parse_args()
    missed = _long_runs(args.nodes, args.days, args.repeats, args.first_seed)
    return int(missed + _hard_runs(args.seeds, args.first_seed) > 0)


def _long_runs(nodes: int, days: float, repeats: int, first: int) -> int:
    usual = {"nodes": nodes}
    rows = [
        ("4 nodes", Fleet(nodes=4), True),
        ("64 nodes", Fleet(nodes=64), True),
        (f"{nodes:,} nodes", Fleet(**usual), True),
        ("... noticed within 15 s", Fleet(**usual, exchange_timeout_s=15), True),
        ("... half of them crashes of one process", Fleet(**usual, silent=0.5), True),
        ("... another host after 5 minutes", Fleet(**usual, absent_s=300), False),
        ("... 1 partition of 30 s an hour", Fleet(**usual, partitions_per_day=24), False),
        (
            "... a rank 3 times slower, 2% of the time",
            Fleet(**usual, stragglers_per_day=2.88, straggler_s=600),
            False,
        ),
    ]
    print(f"| {days:g} days | deaths | starts | goodput | formula | CPU seconds |")
    print("|---|---|---|---|---|---|")
    missed = 0
    for name, fleet, judged in rows:
        began = time.process_time()
        seeds = range(first, first + (repeats if judged else 1))
        runs = [simulate(fleet, seed, until_s=days * DAY_S) for seed in seeds]
        took = (time.process_time() - began) / len(runs)
        found = statistics.mean(run.goodput for run in runs)
        formula = expected_goodput(fleet)
        good = found >= _LEAST and abs(found - formula) <= _CLOSE and not any(r.stuck for r in runs)
        missed += judged and not good
        deaths, starts = (
            statistics.mean(values)
            for values in ([r.deaths for r in runs], [r.spawns for r in runs])
        )
        # The formula is about deaths alone.
        shown = f"{formula:.2%}" if judged or fleet.absent_s else ""
        ends = Counter(run.ended for run in runs)
        note = "" if ends == {"time": len(runs)} else f" ({dict(ends)})"
        print(
            f"| {name}{note} | {deaths:.0f} | {starts:.0f} | {found:.2%} | {shown} | {took:.1f} |"
        )
    return missed


def _hard_runs(seeds: int, first: int) -> int:
    """10,000 short runs that are hit up to several times in each start."""
    began = time.process_time()
    ends: Counter[str] = Counter()
    stuck: list[tuple[int, str]] = []
    deaths = starts = 0
    for seed in range(first, first + seeds):
        fleet, steps = harsh(seed)
        run = simulate(fleet, seed, steps=steps, until_s=30 * DAY_S)
        ends[run.ended] += 1
        deaths += run.deaths
        starts += run.spawns
        if run.stuck:
            stuck.append((seed, run.stuck))
    took = time.process_time() - began
    print()
    print(
        f"{seeds:,} short, hard runs in {took:.0f} s of CPU: "
        + ", ".join(f"{count:,} {name}" for name, count in ends.most_common())
        + f"; {deaths:,} deaths, {starts:,} starts; stuck: {len(stuck)}"
    )
    for seed, why in stuck[:10]:
        print(f"  seed {seed}: {why}")
    return len(stuck)


if __name__ == "__main__":
    sys.exit(main())
