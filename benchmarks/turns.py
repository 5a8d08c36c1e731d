"""Two runs that train side by side, but never at once: what a noisy machine does, it does to both.

Every few seconds one is suspended and the other goes on. Times are taken by a clock that stands while
a run is suspended, and compared block of steps by block of steps. What one process has for life
(where its memory lies) is not averaged: repeat the whole to see that.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import psutil  # type: ignore[import-untyped, unused-ignore]

from ttf.process.lifeline import is_stopped


@dataclass
class Arm:
    """One run that is suspended and continued from outside; it appends a line to `steps` when a step
    ends: its number, and `time.monotonic()`."""

    name: str
    process: subprocess.Popen[bytes]
    steps: Path
    stop_signal: signal.Signals
    """SIGTSTP: it stops all of itself. SIGSTOP: we stop it and whatever it started."""
    gaps: list[tuple[float, float]] = field(default_factory=list)
    """When it was suspended: from, until."""
    _since: float = 0.0

    def suspend(self) -> None:
        if self.stop_signal == signal.SIGTSTP:
            os.kill(self.process.pid, signal.SIGTSTP)
        else:
            self._send(signal.SIGSTOP)
        while self.process.poll() is None and not is_stopped(self.process.pid):
            time.sleep(0.001)
        self._since = time.monotonic()

    def go_on(self) -> None:
        self.gaps.append((self._since, time.monotonic()))
        if self.stop_signal == signal.SIGTSTP:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.process.pid, signal.SIGCONT)
        else:
            self._send(signal.SIGCONT)

    def _send(self, signum: int) -> None:
        with contextlib.suppress(psutil.NoSuchProcess, ProcessLookupError):
            root = psutil.Process(self.process.pid)
            for process in [root, *root.children(recursive=True)]:
                os.kill(process.pid, signum)

    @property
    def over(self) -> bool:
        return self.process.poll() is not None

    def times(self) -> dict[int, float]:
        """When each step ended, by its own clock."""
        lines = [line.split() for line in self.steps.read_text().splitlines()]
        return {int(step): self._own_time(float(when)) for step, when in lines}

    def _own_time(self, when: float) -> float:
        return when - sum(until - since for since, until in self.gaps if until <= when)

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)


def run_in_turns(arms: Sequence[Arm], slice_s: float) -> None:
    """Until all are over. Each is let start by itself, up to its first step."""
    for arm in arms:
        while not arm.over and not arm.steps.exists():
            time.sleep(0.05)
        arm.suspend()
    turn = 0
    while not all(arm.over for arm in arms):
        arm = arms[turn % len(arms)]
        turn += 1
        if arm.over:
            continue
        arm.go_on()
        with contextlib.suppress(subprocess.TimeoutExpired):
            arm.process.wait(slice_s)
        if not arm.over:
            arm.suspend()


def compared(arms: Sequence[Arm], block: int, blocks: int) -> list[float]:
    """Time of the first arm as a share of the second's, block by block; the first block has the
    start in it and does not count. Prints each."""
    ends = [arm.times() for arm in arms]
    ratios = []
    for number in range(1, blocks + 1):
        taken = [times[(number + 1) * block] - times[number * block] for times in ends]
        ratios.append(taken[0] / taken[1])
        speeds = ", ".join(f"{a.name} {block / t:.3f}" for a, t in zip(arms, taken, strict=True))
        print(f"block {number}: {speeds} steps/s, B/A {ratios[-1]:.4f}")
    return ratios


def bounds(ratios: list[float]) -> tuple[float, float, float]:
    """(median, lower, upper 95%) by bootstrap over blocks."""
    values = np.array(ratios)
    draws = np.random.default_rng(0).choice(values, (10_000, len(values)))
    low, high = np.quantile(np.median(draws, axis=1), [0.025, 0.975])
    return float(np.median(values)), float(low), float(high)
