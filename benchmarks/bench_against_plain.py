"""How long `ttf train` without options takes to reach what a loop by hand ends with.

On each set, `plain_loop.py` and `ttf train` take turns, each with its linear and its mlp tower. The
goal is the recall@10 of the better plain loop of the same turn. Three times, in seconds of the whole
command: the plain loop to its end; ttf until the first evaluation that reaches the goal (the
corrected figure at the end of the run counts as the last one); ttf to its end. Ratios are medians
over the turns. Wants a quiet machine.

    python benchmarks/bench_against_plain.py --data ../shared/data --work DIR --turns 3
    python benchmarks/bench_against_plain.py --work DIR --sets "200,000 x 100,000"
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from default_sets import SETS

TOWERS: Final = ("linear", "mlp")
PLAIN: Final = Path(__file__).parent / "plain_loop.py"
VAL_PAIRS: Final = 2_000
# pairs, documents, width: vectors like those of an encoder, with topics and a turned query space.
MADE: Final[Mapping[str, tuple[int, int, int]]] = {
    "100,000 x 100,000": (100_000, 100_000, 384),
    "200,000 x 100,000": (200_000, 100_000, 384),
}


@dataclass(frozen=True, kw_only=True)
class Timed:
    recall: float
    reached_s: float | None  # Of a run of ttf: when the goal was reached.
    whole_s: float


def files_of(name: str, data: Path, work: Path) -> list[str]:
    folders = {"wordnet": "wordnet-definitions", "novels": "novels-next-passage"}
    if name in folders:
        there = data / folders[name]
        if name == "wordnet":
            return ["--pairs", str(there / "pairs.npz"), "--bank", str(there / "bank.npz")]
        context = ["--context", str(there / "context.npz")]
        return ["--pairs", str(there / "windows.npz"), "--bank", str(there / "bank.npz"), *context]
    folder = work / name.replace(" ", "-").replace(",", "")
    if not (folder / "bank.npz").exists():
        folder.mkdir(parents=True, exist_ok=True)
        x, positive, bank, split = _arrays(name, data)
        np.savez(
            folder / "pairs.npz",
            X_train=x[:split],
            pos_train=positive[:split],
            X_val=x[split:],
            pos_val=positive[split:],
        )
        np.savez(folder / "bank.npz", vectors=bank)
    return ["--pairs", str(folder / "pairs.npz"), "--bank", str(folder / "bank.npz")]


def _arrays(name: str, data: Path) -> tuple[Any, Any, Any, int]:
    if name in MADE:
        return _made(*MADE[name])
    pairs = SETS[name](data)
    return pairs.x.numpy(), pairs.positive.numpy(), pairs.bank.numpy(), pairs.split


def _made(pairs: int, documents: int, width: int) -> tuple[Any, Any, Any, int]:
    draw = np.random.default_rng(17)
    number = pairs + VAL_PAIRS
    topics = draw.standard_normal((500, width), dtype=np.float32)
    bank = topics[draw.integers(500, size=documents)]
    bank += 0.8 * draw.standard_normal((documents, width), dtype=np.float32)
    bank /= np.linalg.norm(bank, axis=1, keepdims=True)
    positive = draw.integers(documents, size=number)
    turn = np.eye(width, dtype=np.float32)
    turn += draw.standard_normal((width, width), dtype=np.float32) / np.float32(2 * width**0.5)
    x = bank[positive] @ turn
    x += draw.standard_normal(x.shape, dtype=np.float32) * np.float32(0.12)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    return x, positive, bank, pairs


def plain(files: Sequence[str], tower: str) -> Timed:
    began = time.perf_counter()
    command = [sys.executable, str(PLAIN), *files, "--tower", tower]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    whole = time.perf_counter() - began
    return Timed(recall=json.loads(said)["metrics"]["recall@10"], reached_s=None, whole_s=whole)


def ours(files: Sequence[str], tower: str, goal: float, run: Path) -> Timed:
    shutil.rmtree(run, ignore_errors=True)
    clock = time.time() - time.perf_counter()
    began = time.perf_counter()
    command = [sys.executable, "-m", "ttf", "train", *files, "--tower", tower, "--out", str(run)]
    subprocess.run(command, check=True, capture_output=True)
    whole = time.perf_counter() - began
    recall = json.loads((run / "summary.json").read_text())["metrics"]["recall@10"]
    for line in (run / "metrics.jsonl").read_text().splitlines():
        row = json.loads(line)
        if row["type"] == "eval" and row["metrics"]["recall@10"] >= goal:
            return Timed(recall=recall, reached_s=row["time"] - clock - began, whole_s=whole)
    return Timed(recall=recall, reached_s=whole if recall >= goal else None, whole_s=whole)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    names = [*SETS, *MADE]
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--sets", nargs="*", default=names, choices=names)
    given = parser.parse_args()
    print("| set | plain R@10 | ttf R@10 | plain, s | ttf to the goal, ratio | ttf whole, ratio |")
    print("|---|---|---|---|---|---|")
    for name in given.sets:
        files = files_of(name, given.data, given.work)
        turns = [_turn(files, given.work / "run") for _ in range(given.turns)]
        print(_line(name, turns), flush=True)


def _turn(files: Sequence[str], run: Path) -> tuple[Timed, Timed]:
    """The better plain loop (by recall@10), and the run of ttf that is at its goal first."""
    by_hand = max((plain(files, tower) for tower in TOWERS), key=lambda made: made.recall)
    runs = [ours(files, tower, by_hand.recall, run) for tower in TOWERS]
    return by_hand, min(runs, key=lambda made: (made.reached_s is None, made.reached_s or 0.0))


def _line(name: str, turns: Sequence[tuple[Timed, Timed]]) -> str:
    reached = [None if b.reached_s is None else b.reached_s / a.whole_s for a, b in turns]
    whole = [b.whole_s / a.whole_s for a, b in turns]
    cells = [
        name,
        f"{100 * statistics.median(a.recall for a, _ in turns):.2f}",
        f"{100 * statistics.median(b.recall for _, b in turns):.2f}",
        f"{statistics.median(a.whole_s for a, _ in turns):.1f}",
        "not reached" if None in reached else _spread([x for x in reached if x is not None]),
        _spread(whole),
    ]
    return f"| {' | '.join(cells)} |"


def _spread(values: Sequence[float]) -> str:
    return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


if __name__ == "__main__":
    main()
