"""What a mining round costs beside the epoch it serves: the founding workload, row by row.

Each arm trains two epochs with `miner.refresh = "epoch"` in turn, and tells what its last round took:
encoding, search and the rest, as shares of an epoch's training. "reuse" mines with the query vectors
that training computed. The bar: a quarter of the epoch's training, and a peak below 2 GB.

    python benchmarks/bench_mining_round.py --folder /some/disk/founding   # 14 GB, about an hour
    python benchmarks/bench_mining_round.py --folder /tmp/small --pairs 4488 --bank 96389

With an eighth of the pairs and of the bank the product of a round is a 64th, and the training an
eighth: the share of the encoding stays what it is, that of the search is an eighth.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

TTF = [sys.executable, "-m", "ttf"]
ARMS = {"encode": "miner.queries='encode'", "reuse": "miner.queries='reuse'"}
FOUNDING = (
    *("--tower", "gru", "--set", "tower.query.hidden=512", "--batch-size", "32", "--accum", "16"),
    *("--memory-bank", "50000", "--miner", "exact", "--set", "miner.negatives=4"),
    *("--set", "miner.refresh='epoch'", "--set", "evaluate.every='end'"),
    *("--set", "calibrate.enabled=false", "--json"),
)


def make(folder: Path, pairs: int, bank: int) -> None:
    if (folder / "pairs.npz").exists() and (folder / "bank.npz").exists():
        return
    sizes = {"--pairs": pairs, "--val": 256, "--seq-len": 100, "--dim": 768, "--bank": bank}
    words = [word for name, size in sizes.items() for word in (name, str(size))]
    subprocess.run([*TTF, "data", "synth", "--out", str(folder), *words, "--seed", "0"], check=True)


def trained(folder: Path, arm: str, epochs: int) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    out = folder / f"run-{arm}-{int(time.time())}"
    command = [*TTF, "train", "--out", str(out), "--epochs", str(epochs), *FOUNDING]
    command += ["--pairs", str(folder / "pairs.npz"), "--bank", str(folder / "bank.npz")]
    done = subprocess.run(
        [*command, "--set", ARMS[arm]], stdout=subprocess.PIPE, check=True, text=True
    )
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    return json.loads(done.stdout), lines


def row(arm: str, summary: dict[str, Any], lines: list[dict[str, Any]], epochs: int) -> str:
    train_s = sum(line["seconds"] for line in lines if line["type"] == "step") / epochs
    last = [line for line in lines if line["type"] == "mining"][-1]
    parts = {
        "encoding": last["encode_s"],
        "search": last["search_s"] + last["build_s"],
        "all": last["seconds"],
    }
    shares = ", ".join(f"{name} {s:.1f} s ({s / train_s:.2f})" for name, s in parts.items())
    return (
        f"{arm}: training {train_s:.1f} s an epoch; the last round of {last['queries']:,} queries, "
        f"{last['from_training']:,} of them from training: {shares}; peak "
        f"{summary['peak_anon_mb']:.0f} MB, predicted {summary['predicted_anon_mb']:.0f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path("founding"))
    parser.add_argument("--pairs", type=int, default=35_904)
    parser.add_argument("--bank", type=int, default=771_115)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--arms", nargs="+", choices=sorted(ARMS), default=list(ARMS))
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    make(given.folder, given.pairs, given.bank)
    for arm in given.arms:
        print(row(arm, *trained(given.folder, arm, given.epochs), given.epochs), flush=True)


if __name__ == "__main__":
    main()
