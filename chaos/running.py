"""One `ttf` command, watched and disturbed from outside, by real signals."""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.kit import live_run
from tests.kit.live_run import MARK
from tests.kit.processes import WORKER, children_of, leads_session_as

from ttf.rundir.durable import TEMP_PREFIX
from ttf.rundir.flight_record import Flight, read_flight
from ttf.rundir.verified_folders import newest_step

LONGEST_S: Final = 300.0
_LOOK_EVERY_S: Final = 0.0005

Wanted = Callable[[Flight], bool]


@dataclass(frozen=True, kw_only=True)
class Death:
    """A process that we ended, and what that costs."""

    signum: int
    phase: str
    step: int
    writing: bool
    """A checkpoint was being written beside the training."""
    redone: int
    """Steps that were done and that no intact checkpoint holds."""
    bound: int
    """How many may have been."""


@dataclass
class Writes:
    """How many steps pass while one checkpoint is written, as seen from outside."""

    longest: int = 0
    _since: float | None = None
    _began: int = 0
    _last: int = 0

    def see(self, flight: Flight) -> None:
        if flight.saving_since_s != self._since:
            if self._since is not None:
                self.longest = max(self.longest, flight.step - self._began)
            # The step of the look before: it may have begun at any time since.
            self._since, self._began = flight.saving_since_s, min(self._last, flight.step)
        self._last = flight.step

    def interrupted(self, flight: Flight) -> None:
        """The last record of a process."""
        self.see(flight)
        if self._since is not None:
            self.longest = max(self.longest, flight.step - self._began)
        self._since, self._last = None, 0


@dataclass(kw_only=True)
class Place(live_run.Place):
    """Where one disturbed run lives."""

    @property
    def run(self) -> Path:
        return self.root / "run"

    @property
    def output(self) -> Path:
        """What its commands said, one after another."""
        return self.root / "output.txt"

    def outputs(self, run: Path) -> tuple[Path, Path]:
        return self.output, self.output

    def environment(self, extra: Mapping[str, str]) -> dict[str, str]:
        own = {MARK: self.mark, "TTF_HOME": str(self.root / "home"), "PYTHONUNBUFFERED": "1"}
        return {**os.environ, **own, **extra}

    def said(self) -> str:
        return self.output.read_text(errors="replace") if self.output.exists() else ""


class Running(live_run.LiveRun):
    """A command that random faults meet."""

    place: Place

    def __init__(
        self,
        place: Place,
        words: Sequence[str],
        *,
        more: Mapping[str, str] | None = None,
        prefix: Sequence[str] = (),
    ) -> None:
        """`more` environment; `prefix` is a command that becomes ours by exec."""
        self.writes = Writes()
        self.deaths: list[Death] = []
        place.root.mkdir(parents=True, exist_ok=True)
        with place.output.open("ab") as output:
            output.write(f"$ ttf {' '.join(words[:2])} ...\n".encode())
        super().__init__(place, words, place.run, env=more, prefix=prefix)

    def ended(self, timeout_s: float = LONGEST_S) -> int:
        """Its exit code, once it is over. Raises subprocess.TimeoutExpired."""
        return self.process.wait(timeout_s)

    # --- who is there -------------------------------------------------------------------------

    def worker(self) -> int | None:
        trainer = self.trainer_seen()
        if trainer is None:
            return None
        return next((p for p in children_of(trainer) if leads_session_as(p, WORKER)), None)

    # --- waiting for a moment -----------------------------------------------------------------

    def when(self, wanted: Wanted, timeout_s: float = 60.0) -> Flight | None:
        """Looks on until a live trainer is there and its record is as wanted; None where the run
        ended first. Raises TimeoutError."""
        for flight in self.looks(timeout_s):
            if flight is not None and wanted(flight) and self.trainer_seen() is not None:
                return flight
        return None

    def looks(self, timeout_s: float) -> Iterator[Flight | None]:
        """The flight record, again and again, until the run ends. Raises TimeoutError."""
        until = time.monotonic() + timeout_s
        while not self.over:
            if time.monotonic() > until:
                raise TimeoutError(f"nothing of the kind within {timeout_s:g} s: {self.flight()}")
            flight = self.flight()
            if flight is not None:
                self.writes.see(flight)
            yield flight
            time.sleep(_LOOK_EVERY_S)

    def look_on(self, seconds: float) -> bool:
        """For so long; False where the run ended first."""
        until = time.monotonic() + seconds
        return any(time.monotonic() >= until for _ in self.looks(seconds + LONGEST_S))

    # --- faults -------------------------------------------------------------------------------

    def kill_trainer(self, signum: int, interval: int) -> Death | None:
        """Sends it now, and waits for the death; None where there was nobody to receive it."""
        pid = self.trainer_seen()
        if pid is None:
            return None
        return self.last_record(interval, signum, lambda: kill_and_wait(pid, signum))

    def last_record(self, interval: int, signum: int, end: Callable[[], bool]) -> Death | None:
        """What the trainer was doing when `end` ended it; None where that did not."""
        record, kept = self.place.run / "flight.bin", self.place.root / "last-flight.bin"
        try:
            # The next trainer gets a new file; this name still shows the old one.
            os.link(record, kept)
        except FileNotFoundError:
            end()
            return None
        try:
            last = read_flight(kept) if end() else None
        finally:
            kept.unlink()
        return None if last is None else self._reckoned(signum, last, interval)

    def _reckoned(self, signum: int, last: Flight, interval: int) -> Death:
        checkpoints = self.place.run / "checkpoints"
        unfinished = _unfinished(checkpoints)
        self.writes.interrupted(last)
        write = max([self.writes.longest, *(last.step - step for step in unfinished)])
        death = Death(
            signum=signum,
            phase=last.phase,
            step=last.step,
            writing=last.saving_since_s is not None,
            redone=max(0, last.step - max(0, newest_step(checkpoints))),
            # A checkpoint that is due while one is written is made when that is done.
            bound=max(interval, write) + write,
        )
        self.deaths.append(death)
        return death


def _unfinished(checkpoints: Path) -> list[int]:
    """Steps of checkpoints that were being written."""
    prefix = f"{TEMP_PREFIX}step-"
    names = [p.name.removeprefix(prefix) for p in checkpoints.glob(f"{prefix}*")]
    return [int(n[:9]) for n in names if n[:9].isdecimal()]


def kill_and_wait(pid: int, signum: int, timeout_s: float = 30.0) -> bool:
    """False where it had ended before. Raises TimeoutError where it survives."""
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        return False
    try:
        if select.select([pidfd], [], [], 0)[0]:
            return False
        signal.pidfd_send_signal(pidfd, signum)
        if not select.select([pidfd], [], [], timeout_s)[0]:
            raise TimeoutError(f"the process survived signal {signum} for {timeout_s:g} s")
    except ProcessLookupError:
        return False
    finally:
        os.close(pidfd)
    return True


def wait_until(condition: Callable[[], Any], timeout_s: float) -> bool:
    """Whether it came true in time."""
    until = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True
