"""A small run on several ranks and hosts, and what is looked at while it goes on."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from tests.kit.hosts import Host
from tests.kit.live_run import LONGEST_S, LiveRun, Place
from tests.kit.processes import children_of, command_line, is_trainer
from tests.kit.ranks import results_of
from tests.kit.widely import CHAOS

from ttf.rundir.flight_record import read_flight

STEPS: Final = 120 if CHAOS else 40
"""A campaign disturbs for longer: the run must not be over before."""
EVERY: Final = 5
"""Steps between checkpoints."""
PORT: Final = 29_400
"""Of node 0; each test has hosts of its own."""
_LOOK_S: Final = 0.01
_SETS: Final = {
    "train.shards": 8,
    "checkpoint.every_steps": EVERY,
    "tower.query.hidden": 16,
    "device.precision": '"fp32"',
    "evaluate.patience": 0,
    "evaluate.every": 20,
    "miner.negatives": 4,
    "miner.start": 0,
    "miner.refresh": 20,
    "miner.name": '"exact"',
    "loss.memory_bank": 64,
}


class Several(Place):
    """Where these runs live: their data, and the words that start them."""

    def train(self, run: Path, *more: str, steps: int = STEPS, **sets: Any) -> list[str]:
        """`sets`: with two underscores for the dot of a key; None leaves a key out."""
        words: list[Any] = ["train", "--json", "--out", run, "--steps", steps, "--threads", 1]
        words += ["--pairs", self.root / "pairs.npz", "--bank", self.root / "bank.npz"]
        words += ["--tower", "gru", "--device", "cpu", "--batch-size", 32, *more]
        for key, value in {
            **_SETS,
            **{key.replace("__", "."): value for key, value in sets.items()},
        }.items():
            if value is not None:
                words += ["--set", f"{key}={value}"]
        return [str(word) for word in words]

    def start(self, run: Path, words: list[str], host: Host | None = None) -> LiveRun:
        prefix = [] if host is None else host.prefix
        return LiveRun(self, words, run, prefix=prefix)


def rank_folder(run: Path, local: int) -> Path:
    return run / "ranks" / str(local) if local else run


def writes(pid: int, folder: Path) -> bool:
    """Whether it is the trainer of that folder."""
    if not is_trainer(pid):
        return False
    try:
        maps = Path(f"/proc/{pid}/maps").read_text()
    except OSError:
        return False
    return str(folder / "flight.bin") in maps


def reaches(live: LiveRun, folder: Path, step: int) -> int:
    """Waits until a trainer of this folder has done so many steps; returns its process id."""

    def seen() -> int | None:
        flight = read_flight(folder / "flight.bin")
        if flight is None or flight.began_s is None or flight.step < step:
            return None
        return next((pid for pid in children_of(live.pid) if writes(pid, folder)), None)

    return live.until(seen, f"{folder} comes to step {step}")


def strikes(pid: int, signum: int) -> None:
    os.kill(pid, signum)
    if signum not in (signal.SIGKILL, signal.SIGSTOP):
        os.kill(pid, signal.SIGCONT)


def until(seen: Callable[[], object], what: str, timeout_s: float = LONGEST_S) -> float:
    """Waits; returns how long."""
    began = time.monotonic()
    while not seen():
        assert time.monotonic() - began < timeout_s, f"waited in vain until {what}"
        time.sleep(_LOOK_S)
    return time.monotonic() - began


def results(run: Path) -> dict[str, Any]:
    return results_of(run)


def orphans(place: Place) -> Iterator[str]:
    """Trainers that outlive their supervisor."""
    for pid in place.living():
        if is_trainer(pid):
            yield command_line(pid)
