"""How long the smallest run takes, from the command to its end, with two versions of ttf in turns; and
whether both end with the same weights.

    python benchmarks/bench_two_versions.py OLD/.venv/bin/ttf NEW/.venv/bin/ttf

The older one writes the run.toml, with every value, which both then train.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

RUN = ("--tower", "linear", "--steps", "3", "--threads", "1", "--set", "evaluate.every='end'",
       "--set", "calibrate.enabled=false", "--set", "miner.negatives=0")  # fmt: skip


def trained(ttf: str, *words: str) -> tuple[float, str]:
    began = time.perf_counter()
    done = subprocess.run(
        [ttf, "train", *words, "--json"], check=True, stdout=subprocess.PIPE, text=True
    )
    return time.perf_counter() - began, json.loads(done.stdout)["weights_sha256"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("versions", nargs=2, metavar="TTF")
    parser.add_argument("--repeats", type=int, default=9)
    args = parser.parse_args()
    old, new = args.versions
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        subprocess.run([new, "data", "synth", "--out", str(folder)], check=True)
        data = ("--pairs", str(folder / "pairs.npz"), "--bank", str(folder / "bank.npz"))
        trained(old, *data, *RUN, "--out", str(folder / "base"))
        took: dict[str, list[float]] = {old: [], new: []}
        weights = set()
        for number in range(args.repeats):
            for ttf in (old, new) if number % 2 == 0 else (new, old):
                out = ("--out", str(folder / f"run-{number}-{ttf == old}"))
                seconds, digest = trained(ttf, str(folder / "base/run.toml"), *out)
                took[ttf].append(seconds)
                weights.add(digest)
    more = [after - before for before, after in zip(took[old], took[new], strict=True)]
    print(
        f"old {statistics.median(took[old]):.2f} s, new {statistics.median(took[new]):.2f} s; new - old "
        f"{1e3 * statistics.median(more):+.0f} ms ({1e3 * min(more):+.0f} to {1e3 * max(more):+.0f}, "
        f"n = {len(more)}); weights {'equal' if len(weights) == 1 else 'DIFFER'}"
    )
    return int(len(weights) != 1)


if __name__ == "__main__":
    raise SystemExit(main())
