"""Does the memory of a run stay flat, and was it predicted?

Four configurations on wordnet-definitions, 10,000 steps each, with a mining round and an evaluation
every 500 steps. From memory.jsonl (anonymous and shared memory of the process tree): the slopes
of what is held while it trains (the lowest value of each round of 500 steps) and of the highest
value of each round, both after the first evaluation and mining round (Theil-Sen), and of the second half
alone (a heap that fills its holes comes to rest, a leak does not); and the peak beside the prediction of --plan. The lowest value, because the heap keeps some 15 MB more or less of
what an evaluation freed: by chance, which is no growth, but as large as what is looked for.

Bars: slopes below 1 MB per 1,000 steps, prediction within 20%. Exit code 1 if one is missed. Other
load on the machine changes the time only.

    python benchmarks/bench_memory.py --data DIR --runs OUT                  # an hour
    python benchmarks/bench_memory.py --data DIR --runs OUT --only linear

Runs that are in OUT already are only read, also one that was stopped. The plot is written to docs/performance/memory.svg.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from plots import Line, log_log, save

PLOT: Final = Path(__file__).parents[1] / "docs" / "performance" / "memory.svg"
EVERY: Final = 500
SLOPE_MB: Final = 1.0
ERROR: Final = 0.2
COMMON: Final = (
    *("--set", f"miner.refresh={EVERY}", "--set", f"evaluate.every={EVERY}"),
    *("--set", "evaluate.patience=0"),
)
CONFIGURATIONS: Final[Mapping[str, Sequence[str]]] = {
    "linear": ("--tower", "linear"),
    "gru": ("--tower", "gru"),
    "trainable documents": ("--tower", "linear", "--doc-tower", "linear"),
    "full bank": ("--tower", "linear", "--set", "loss.negatives=bank"),
}


@dataclass(frozen=True, kw_only=True)
class Found:
    training: Sequence[tuple[int, float]]  # (step, MB) while it trains, one for each 250 steps
    held: Sequence[tuple[int, float]]  # (step, MB) the lowest of each round while it trains
    highest: Sequence[tuple[int, float]]  # (step, MB) of each round
    steps: int
    peak_mb: float
    predicted_mb: float

    @property
    def error(self) -> float:
        return self.predicted_mb / self.peak_mb - 1


def trained(data: Path, out: Path, words: Sequence[str], steps: int) -> Path:
    if not (out / "summary.json").exists():
        files = ("--pairs", str(data / "pairs.npz"), "--bank", str(data / "bank.npz"))
        command = [sys.executable, "-m", "ttf", "train", *files, *words, *COMMON]
        subprocess.run(
            [*command, "--steps", str(steps), "--out", str(out)],
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
    return out


def read(run: Path) -> Found:
    points = [(p["step"], (p["anon"] + p["shared"]) / 1e6) for p in _lines(run / "memory.jsonl")]
    training, rounds, held = defaultdict(list), defaultdict(list), defaultdict(list)
    for (before, _), (step, megabytes) in itertools.pairwise(points):
        if step > EVERY:
            rounds[step // EVERY * EVERY].append(megabytes)
            if step > before and step % EVERY:  # it takes steps, and does nothing else
                training[step // 250 * 250].append(megabytes)
                held[step // EVERY * EVERY].append(megabytes)
    summary = json.loads((run / "summary.json").read_text())
    last = summary["steps"] // EVERY * EVERY  # then the miner ends, or the run was stopped
    return Found(
        training=[
            (step, statistics.median(values))
            for step, values in sorted(training.items())
            if step < last
        ],
        held=[(step, min(values)) for step, values in sorted(held.items()) if step < last],
        highest=[(step, max(values)) for step, values in sorted(rounds.items()) if step < last],
        steps=summary["steps"],
        peak_mb=summary["peak_anon_mb"],
        predicted_mb=summary["predicted_anon_mb"],
    )


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    for line in path.read_text().splitlines():
        yield json.loads(line)


def slope(points: Sequence[tuple[int, float]]) -> float:
    """MB per 1,000 steps: the median of the slopes of all pairs.

    >>> slope([(0, 100.0), (1000, 102.0), (2000, 104.0), (3000, 900.0)])
    2.0
    """
    pairs = itertools.combinations(points, 2)
    slopes = [1000 * (y2 - y1) / (x2 - x1) for (x1, y1), (x2, y2) in pairs if x2 > x1]
    return statistics.median_low(slopes)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder of wordnet-definitions")
    parser.add_argument("--runs", type=Path, required=True, help="folder for the runs")
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--only", default="", help="one configuration")
    parser.add_argument("--batch-size", type=int, help="smaller ones need less time")
    parser.add_argument("--threads", type=int, help="on a busy machine one is the fastest")
    args = parser.parse_args()
    lines, missed = [], 0
    print(
        "| | steps | held while training | second half | highest of a round | second half | peak | predicted | off |\n"
        "|---|---|---|---|---|---|---|---|---|"
    )
    for name, words in CONFIGURATIONS.items():
        if args.only not in ("", name):
            continue
        if args.threads:
            words = (*words, "--threads", str(args.threads))
        if args.batch_size:
            words = (*words, "--batch-size", str(args.batch_size))
        found = read(trained(args.data, args.runs / name.replace(" ", "-"), words, args.steps))
        slopes = slope(found.held), slope(found.highest)
        later = [slope(values[len(values) // 2 :]) for values in (found.held, found.highest)]
        missed += max(slopes) >= SLOPE_MB or abs(found.error) > ERROR
        print(
            f"| {name} | {found.steps:,} | {slopes[0]:+.2f} MB per 1,000 steps | {later[0]:+.2f} | "
            f"{slopes[1]:+.2f} | {later[1]:+.2f} | {found.peak_mb:.0f} MB | {found.predicted_mb:.0f} MB | {100 * found.error:+.0f}% |",
            flush=True,
        )
        lines.append(Line(name=name, points=found.training))
    if not args.only:
        figure = log_log(
            "Anonymous and shared memory while training", lines, x_label="step", y_label="MB"
        )
        save(PLOT, [figure], columns=1)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
