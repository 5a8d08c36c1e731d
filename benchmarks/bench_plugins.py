"""What listing costs with many distributions installed: `ttf plugins list` beyond interpreter start.

    python benchmarks/bench_plugins.py [--distributions 50] [--repeats 15]

Fifty fake distributions of four plugins each lie on PYTHONPATH; every module of theirs raises when it
is imported. In turns: the interpreter alone, `ttf --version`, `ttf plugins list` without them and with
them. Half a minute. The bar: 150 ms beyond the interpreter's start.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

BAR_MS = 150.0
KINDS = ("tower", "miner", "storage", "observer")
METADATA = "Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\nSummary: {text}\n\n{body}\n"
BODY = "A long description, as packages have them.\n" * 200


def install(folder: Path, number: int) -> None:
    """Distributions as pip leaves them, their README in the metadata."""
    for index in range(number):
        name = f"ttf-fake-{index:02}"
        info = folder / f"{name.replace('-', '_')}-1.0.dist-info"
        info.mkdir()
        text = METADATA.format(name=name, text="a fake", body=BODY)
        info.joinpath("METADATA").write_text(text)
        points = [f"{kind}.fake{index:02} = ttf_fake_{index:02}" for kind in KINDS]
        info.joinpath("entry_points.txt").write_text("[ttf.v1]\n" + "\n".join(points) + "\n")
        folder.joinpath(f"ttf_fake_{index:02}.py").write_text("raise RuntimeError('imported')\n")


def run(words: Sequence[str], env: dict[str, str]) -> float:
    began = time.perf_counter()
    subprocess.run(words, env=env, check=True, capture_output=True)
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--distributions", type=int, default=50)
    parser.add_argument("--repeats", type=int, default=15)
    asked = parser.parse_args()
    bare = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    with tempfile.TemporaryDirectory() as site:
        install(Path(site), asked.distributions)
        full = bare | {"PYTHONPATH": site}
        ttf = [sys.executable, "-m", "ttf"]
        arms: dict[str, Callable[[], float]] = {
            "interpreter": lambda: run([sys.executable, "-c", "pass"], bare),
            "ttf --version": lambda: run([*ttf, "--version"], bare),
            "list, none of them": lambda: run([*ttf, "plugins", "list"], bare),
            f"list, {asked.distributions} of them": lambda: run([*ttf, "plugins", "list"], full),
        }
        took: dict[str, list[float]] = {name: [] for name in arms}
        for _ in range(asked.repeats):
            for name, arm in arms.items():
                took[name].append(arm())
    base = took["interpreter"]
    print(f"{'':24}{'median ms':>10}{'beyond start':>14}{'spread':>18}")
    for name, times in took.items():
        beyond = [(t - b) * 1e3 for t, b in zip(times, base, strict=True)]
        low, high = min(beyond), max(beyond)
        print(
            f"{name:24}{statistics.median(times) * 1e3:10.1f}"
            f"{statistics.median(beyond):14.1f}{low:9.1f} to {high:.1f}"
        )
    print(f"The bar: {BAR_MS:.0f} ms beyond the start of the interpreter.")


if __name__ == "__main__":
    main()
