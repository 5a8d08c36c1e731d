"""Recall on the real sets: `ttf` beside the plain loop, and what each kind of negative adds.

Every arm is trained with seeds 0, 1, 2; figures are mean and spread (lowest to highest) of the
validation metrics, in percent: `ttf`'s of the epoch with the best recall@10, the plain loop's of
its last step. Arms differ from the base in what their name says. Results are appended to a JSON-lines file, so that a run can be continued.

    python benchmarks/bench_quality.py --data ../shared/data --out quality.jsonl
    python benchmarks/bench_quality.py --out quality.jsonl --table
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

METRICS = ("recall@1", "recall@10", "recall@100", "recall@500", "mrr@10")


@dataclass(frozen=True, kw_only=True)
class Base:
    """What all arms of a data set share."""

    folder: str
    files: Mapping[str, str]
    tower: str
    options: Mapping[str, Any]
    batch: int = 1024
    epochs: int = 4
    lr: float = 1e-3
    temperature: float = 0.05
    arms: tuple[str, ...] = ()
    """Only these; empty: all."""


WORDNET = Base(
    folder="wordnet-definitions",
    files={"pairs": "pairs.npz", "bank": "bank.npz"},
    tower="mlp",
    options={"hidden": 1024, "dropout": 0.5},
)
NOVELS = Base(
    folder="novels-next-passage",
    files={"pairs": "windows.npz", "context": "context.npz", "bank": "bank.npz"},
    tower="mlp",
    options={"hidden": 768, "dropout": 0.3, "pool": "weighted"},
)
FEW = ("in-batch", "memory bank", "mined 4", "memory bank + mined 4")
BASES = {
    "wordnet": WORDNET,
    "novels": NOVELS,
    "wordnet, batch 64": replace(WORDNET, batch=64, epochs=2, lr=5e-4, arms=FEW),
    "novels, batch 64": replace(NOVELS, batch=64, epochs=2, lr=5e-4, arms=FEW),
}


@dataclass(frozen=True, kw_only=True)
class Arm:
    """Settings over the base; `plain` is the loop without `ttf`."""

    name: str
    sets: Mapping[str, Any] = field(default_factory=dict)
    plain: bool = False
    first: bool = False


IN_BATCH = {"loss.memory_bank": 0, "miner.negatives": 0}
ARMS = (
    Arm(name="plain loop, in-batch", plain=True, first=True),
    Arm(name="in-batch", sets=IN_BATCH, first=True),
    Arm(name="memory bank", sets={"loss.memory_bank": "auto", "miner.negatives": 0}, first=True),
    Arm(name="mined 4", sets={"loss.memory_bank": 0, "miner.negatives": 4}, first=True),
    Arm(name="memory bank + mined 4", sets={"loss.memory_bank": "auto", "miner.negatives": 4}),
    Arm(name="in-batch, T=0.02", sets={**IN_BATCH, "loss.temperature": 0.02}),
    Arm(name="in-batch, T=0.1", sets={**IN_BATCH, "loss.temperature": 0.1}),
    Arm(name="in-batch, T learned", sets={**IN_BATCH, "loss.learn_temperature": True}),
)


def run_ttf(base: Base, arm: Arm, data: Path, seed: int, threads: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as scratch:
        folder = data / base.folder
        command = [sys.executable, "-m", "ttf", "train", "--out", f"{scratch}/run", "--json"]
        for name, file in base.files.items():
            command += [f"--{name}", str(folder / file)]
        settings = {
            **{f"tower.query.{k}": v for k, v in base.options.items()},
            "loss.temperature": base.temperature,
            **arm.sets,
        }
        command += ["--tower", base.tower, "--batch-size", str(base.batch)]
        command += ["--epochs", str(base.epochs), "--lr", str(base.lr)]
        command += ["--seed", str(seed), "--threads", str(threads), "--miner", "exact"]
        for key, value in settings.items():
            command += ["--set", f"{key}={json.dumps(value)}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"{arm.name}, seed {seed}: {done.stderr[-2000:]}")
        summary = json.loads(done.stdout)
        return {"metrics": summary["metrics"], "wall_s": summary["wall_s"]}


def run_plain(base: Base, arm: Arm, data: Path, seed: int, threads: int) -> dict[str, Any]:
    """The loop by hand, whose weights are those of its last step."""
    assert not arm.sets, "the plain loop has no such settings"
    folder = data / base.folder
    given = {
        **{name: folder / file for name, file in base.files.items()},
        "tower": base.tower,
        **base.options,
        **{name: getattr(base, name) for name in ("batch", "epochs", "lr", "temperature")},
        "seed": seed,
    }
    command = [sys.executable, str(Path(__file__).with_name("plain_loop.py"))]
    command += [text for name, value in given.items() for text in (f"--{name}", str(value))]
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    found = json.loads(done.stdout)
    return {"metrics": found["metrics"], "wall_s": found["seconds"]}


def finished(out: Path) -> Iterator[dict[str, Any]]:
    if out.exists():
        for line in out.read_text().splitlines():
            yield json.loads(line)


def table(out: Path) -> str:
    """Markdown, an arm a line, for each data set."""
    found: dict[str, dict[str, list[dict[str, float]]]] = defaultdict(lambda: defaultdict(list))
    for row in finished(out):
        found[row["set"]][row["arm"]].append(row["metrics"])
    lines = []
    for name, arms in found.items():
        lines += [f"\n### {name}\n", f"| arm | seeds | {' | '.join(METRICS)} |"]
        lines.append("|---" * (len(METRICS) + 2) + "|")
        for arm, runs in arms.items():
            cells = []
            for metric in METRICS:
                values = [100 * run[metric] for run in runs]
                cells.append(f"{statistics.mean(values):.2f} ({min(values):.2f}-{max(values):.2f})")
            lines.append(f"| {arm} | {len(runs)} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--out", type=Path, default=Path("quality.jsonl"))
    parser.add_argument("--only", default="", help="arms or sets whose name contains this")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--table", action="store_true")
    given = parser.parse_args()
    if given.table:
        print(table(given.out))
        return
    done = {(r["set"], r["arm"], r["seed"]) for r in finished(given.out)}
    for name, base, arm, seed in work(given.seeds):
        if (name, arm.name, seed) in done or given.only not in f"{name}: {arm.name}":
            continue
        began = time.perf_counter()
        run = run_plain if arm.plain else run_ttf
        found = run(base, arm, given.data, seed, given.threads)
        row = {"set": name, "arm": arm.name, "seed": seed, **found}
        with given.out.open("a") as file:
            file.write(json.dumps(row) + "\n")
        print(
            f"{name}, {arm.name}, seed {seed}: recall@10 {found['metrics']['recall@10']:.4f}, "
            f"{time.perf_counter() - began:.0f} s",
            flush=True,
        )


def work(seeds: int) -> Iterator[tuple[str, Base, Arm, int]]:
    """The arms that answer the main questions first, with all their seeds."""
    for first in (True, False):
        for seed in range(seeds):
            for name, base in BASES.items():
                for arm in ARMS:
                    if arm.first == first and (not base.arms or arm.name in base.arms):
                        yield name, base, arm, seed


if __name__ == "__main__":
    main()
