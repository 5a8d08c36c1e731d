"""Do commands start as fast as in another version? Two environments take turns.

Measured: `ttf --help`, `ttf plugins list`, and `ttf train` until its first step stands in
metrics.jsonl (evaluation and mining before it included). Besides, the modules of ttf that the
supervisor of a run has loaded at that first step: all that it supervises an undisturbed run with.
What writes the report when the run has ended comes later and does not count.

    python benchmarks/bench_commands.py OLD/.venv/bin/python NEW/.venv/bin/python --repeats 15
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import subprocess
import tempfile
import time
from functools import partial
from pathlib import Path
from statistics import median
from typing import Final

from ttf.tools.bench.paired import in_turns, ratio

DATA: Final = "--pairs 256 --val 32 --seq-len 4 --dim 16 --bank 512"
FIRST_STEP: Final = b'"type": "step"'
_AT_FIRST_STEP: Final = """
import os, pathlib, sys, threading, time
def tell():
    folder = pathlib.Path(os.environ["BENCH_MODULES"])
    metrics = folder / "run" / "metrics.jsonl"
    while not (metrics.exists() and b'"type": "step"' in metrics.read_bytes()):
        time.sleep(0.005)
    ours = sorted(name for name in list(sys.modules) if name.partition(".")[0] == "ttf")
    whole = folder / f"{os.getpid()}.whole"
    whole.write_text("\\n".join(ours))
    whole.rename(folder / f"{os.getpid()}")
threading.Thread(target=tell, daemon=True).start()
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("old", help="Python of the version to compare with")
    parser.add_argument("new", help="Python of the version to be measured")
    parser.add_argument("--repeats", type=int, default=15)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder, "data")
        _ttf(given.new, "data", "synth", "--out", str(data), *DATA.split())
        commands = {
            "ttf --help": lambda python: _ttf(python, "--help"),
            "ttf plugins list": lambda python: _ttf(python, "plugins", "list"),
            "first step of ttf train": lambda python: _first_step(python, data),
        }
        for name, command in commands.items():
            arms = {"old": partial(command, given.old), "new": partial(command, given.new)}
            seconds = in_turns(arms, given.repeats)
            print(
                f"{name:<24} old {median(seconds['old']):.3f} s, new {median(seconds['new']):.3f} s,"
                f" new / old {ratio(seconds['new'], seconds['old'])}",
                flush=True,
            )
        loaded = _supervisor_loads(given.new, data)
        print(f"modules of ttf in the supervisor at the first step: {len(loaded)}")
        print("  " + " ".join(loaded))


def _ttf(python: str, *arguments: str) -> None:
    subprocess.run([python, "-m", "ttf", *arguments], check=True, capture_output=True)


def _train(python: str, data: Path, out: Path) -> list[str]:
    files = ["--pairs", str(data / "pairs.npz"), "--bank", str(data / "bank.npz")]
    return [python, "-m", "ttf", "train", *files, "--steps", "3", "--out", str(out)]


def _first_step(python: str, data: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "run")
        run = subprocess.Popen(
            _train(python, data, out),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        metrics = out / "metrics.jsonl"
        while run.poll() is None:
            with contextlib.suppress(FileNotFoundError):
                if FIRST_STEP in metrics.read_bytes():
                    break
            time.sleep(0.002)
        else:
            raise SystemExit(f"the run of {python} ended before its first step")
        with contextlib.suppress(ProcessLookupError):
            os.killpg(run.pid, signal.SIGKILL)
        run.wait()


def _supervisor_loads(python: str, data: Path) -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        hook = Path(folder, "hook")
        hook.mkdir()
        (hook / "sitecustomize.py").write_text(_AT_FIRST_STEP)
        environment = {**os.environ, "PYTHONPATH": str(hook), "BENCH_MODULES": folder}
        run = subprocess.Popen(
            _train(python, data, Path(folder, "run")),
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        if code := run.wait():
            raise SystemExit(f"the run of {python} ended with {code}")
        return Path(folder, str(run.pid)).read_text().splitlines()


if __name__ == "__main__":
    main()
