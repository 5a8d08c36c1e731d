"""Does a run get through that is killed again and again, and ends with the weights of a calm one?

Three runs. In the first, every trainer is killed (SIGKILL) when it has done 20 steps; in the second,
every trainer is killed three seconds after its first step, 300 times, then left alone. In the third,
which has two mining rounds of 60,000 queries, every trainer is killed as soon as more of a round is
on the disk than at any death before: no trainer lives as long as a round takes. (The same happens to
its calibration.) There the third death in a row without progress ends the run. All must finish with
the weights of a run that nobody disturbed, give up at nothing, and leave no process behind, zombies
included. Load on the machine changes the time only.

    nice python benchmarks/bench_kills.py                    # half an hour to an hour
    python benchmarks/bench_kills.py --only seconds --kills 30

Exit code 1 if a run did not finish, or finished with other weights.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import psutil

from ttf.data.synth import SynthShape, write_synth
from ttf.rundir.flight_record import Flight, read_flight

SHAPE: Final = SynthShape(pairs=2000, val=200, seq_len=32, dim=64, bank=1200, seed=3)
MANY: Final = SynthShape(pairs=60_000, val=200, seq_len=8, dim=64, bank=20_000, seed=3)
# Two rounds, and the third death in a row without progress ends the run.
ROUNDS: Final = ("--set", "miner.refresh=10", "--set", "supervise.max_restarts=2")
ROUNDS_STEPS: Final = 20
COMMON: Final = (
    *("--batch-size", "128", "--threads", "1", "--set", "miner.negatives=2", "--set", "miner.k=20"),
    *(
        "--set",
        "loss.memory_bank=0",
        "--set",
        "miner.refresh=500",
        "--set",
        "evaluate.every=500",
        "--set",
        "evaluate.patience=0",
    ),
)
TRAINER: Final = "ttf.training.launch"
EVERY_STEPS: Final = 20
AFTER_S: Final = 3.0
# Of a life and what is saved of it. On busy cores 79 were measured: with 60, a run ended before it had
# been killed so often.
STEPS_PER_KILL: Final = 120


@dataclass(kw_only=True)
class Disturbed:
    kills: int = 0
    zombies: int = 0  # Seen for longer than a second, below the supervisor.
    seconds: float = 0.0
    lives: list[int] = field(default_factory=list)  # Steps of each trainer that was killed.


def command(folder: Path, run: Path, steps: int, *more: str) -> list[str]:
    files = ("--pairs", str(folder / "pairs.npz"), "--bank", str(folder / "bank.npz"))
    ours = [sys.executable, "-m", "ttf", "train", *files, *COMMON]
    return [*ours, *more, "--steps", str(steps), "--out", str(run)]


def disturbed(
    words: Sequence[str], run: Path, most: int, due: Callable[[Flight, float], bool]
) -> Disturbed:
    """Kills each trainer when it is `due`, at most so often, until the command ends."""
    made = Disturbed()
    began = time.monotonic()
    killed: float | None = None  # When the trainer began that was killed last.
    trained: tuple[float, float] = 0.0, 0.0  # (when a trainer began, when its first step was seen)
    zombies: dict[int, float] = {}
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        while process.poll() is None:
            time.sleep(0.005)
            children = _children(process.pid)
            made.zombies += _aged(zombies, children)
            trainer = next((c.pid for c in children if _is_trainer(c)), None)
            flight = read_flight(run / "flight.bin")
            if trainer is None or flight is None or flight.began_s in (None, killed):
                continue
            assert flight.began_s is not None
            if flight.step > flight.began_step and trained[0] != flight.began_s:
                trained = flight.began_s, time.monotonic()
            lived = time.monotonic() - trained[1] if trained[0] == flight.began_s else 0.0
            if made.kills < most and due(flight, lived):
                made.lives.append(flight.step - flight.began_step)
                os.kill(trainer, signal.SIGKILL)
                made.kills += 1
                time.sleep(0.01)
                last = read_flight(run / "flight.bin")
                if last is not None and last.began_s == flight.began_s:
                    due(last, lived)  # it may have come farther before it was dead
                killed = flight.began_s
                print(f"\r{made.kills:4} kills, step {flight.step:6,}", end="", file=sys.stderr)
    made.seconds = time.monotonic() - began
    print(file=sys.stderr)
    return made


def _children(pid: int) -> list[psutil.Process]:
    try:
        return list(psutil.Process(pid).children())
    except psutil.NoSuchProcess:
        return []


def _is_trainer(process: psutil.Process) -> bool:
    try:
        return TRAINER in process.cmdline()
    except psutil.Error:
        return False


def _aged(zombies: dict[int, float], children: Sequence[psutil.Process]) -> int:
    """How many children have just been zombies for a second."""
    now, here = time.monotonic(), set()
    for child in children:
        try:
            if child.status() == psutil.STATUS_ZOMBIE:
                here.add(child.pid)
        except psutil.NoSuchProcess:
            continue
    for pid in set(zombies) - here:
        del zombies[pid]
    old = 0
    for pid in here:
        since = zombies.setdefault(pid, now)
        if now - since > 1.0:
            zombies[pid] = float("inf")  # counted once
            old += 1
    return old


def by_steps(flight: Flight, _: float) -> bool:
    return flight.step - flight.began_step >= EVERY_STEPS


def by_seconds(_: Flight, trained_s: float) -> bool:
    return trained_s >= AFTER_S


class ByBlocks:
    """Due when more of a round is kept than ever before."""

    def __init__(self) -> None:
        self._best = -1, 0

    def __call__(self, flight: Flight, _: float) -> bool:
        kept = flight.step, flight.kept_work
        if not flight.kept_work or kept <= self._best:
            return False
        self._best = kept
        return True


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=3000, help="of the run killed every 20 steps")
    parser.add_argument("--kills", type=int, default=300, help="of the run killed after 3 s")
    parser.add_argument("--only", choices=("steps", "seconds", "blocks"))
    args = parser.parse_args()
    long = args.kills * STEPS_PER_KILL
    always = 1 << 30
    kinds: dict[str, tuple[int, int, Callable[[Flight, float], bool], str]] = {
        "steps": (args.steps, always, by_steps, "killed every 20 steps"),
        "seconds": (long, args.kills, by_seconds, "killed 3 s after its first step"),
        "blocks": (ROUNDS_STEPS, always, ByBlocks(), "killed when more of a round is kept"),
    }
    wrong = 0
    print("| run | steps | kills | weights equal | exit code | restarts told | zombies | minutes |")
    print("|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as name:
        for kind, (steps, most, due, title) in kinds.items():
            if args.only not in (None, kind):
                continue
            folder = Path(name) / kind
            folder.mkdir()
            write_synth(folder, MANY if kind == "blocks" else SHAPE)
            more = ROUNDS if kind == "blocks" else ()
            calm, run = folder / f"calm-{kind}", folder / f"run-{kind}"
            quiet = subprocess.DEVNULL
            subprocess.run(
                command(folder, calm, steps, *more), check=True, stdout=quiet, stderr=quiet
            )
            made = disturbed(command(folder, run, steps, *more), run, most, due)
            summary = json.loads((run / "summary.json").read_text())
            hashes = [
                json.loads((r / "summary.json").read_text()).get("weights_sha256")
                for r in (calm, run)
            ]
            finished = summary["status"] == "finished"
            equal = finished and hashes[0] == hashes[1] and hashes[0] is not None
            wrong += not equal or bool(made.zombies)
            print(
                f"| {title} | {steps:,} | {made.kills} | {'yes' if equal else 'NO'} | "
                f"{summary['exit_code']} | {summary['restarts']} | {made.zombies} | "
                f"{made.seconds / 60:.1f} |",
                flush=True,
            )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
