"""A trainer that stops by itself at a moment a test names: none is missed, however busy the machine.

`SITE` lies on the path of a run's processes. A trainer reads what is wanted from the file of
`VARIABLE` whenever it writes its flight record.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.kit.processes import TRAINER

from ttf.rundir.flight_record import Flight

VARIABLE: Final = "TTF_TEST_GATE"
SITE: Final = f'''
"""Stops the trainer, once, where its flight record says what the file of TTF_TEST_GATE says."""
import os, signal, sys
from pathlib import Path


def _arm(wanted):
    import mmap
    from ttf.rundir.flight_record import FlightRecorder, Phase

    beat = FlightRecorder.beat

    def beat_and_perhaps_stop(recorder):
        beat(recorder)
        if not isinstance(recorder._map, mmap.mmap):
            return
        try:
            phase, since = wanted.read_text().split()
        except FileNotFoundError:
            return
        here = recorder._saving_since if phase == "saving" else recorder._phase is Phase[phase.upper()]
        if here and recorder._step >= int(since):
            try:
                wanted.rename(wanted.with_suffix(".reached"))
            except FileNotFoundError:  # the other thread was here at the same moment
                return
            os.kill(os.getpid(), signal.SIGSTOP)

    FlightRecorder.beat = beat_and_perhaps_stop


if "TTF_TEST_GATE" in os.environ and {TRAINER!r} in sys.orig_argv:
    _arm(Path(os.environ["TTF_TEST_GATE"]))
'''


@dataclass(frozen=True, kw_only=True)
class Where:
    """A moment in the life of a trainer, as its flight record tells it."""

    phase: str
    """Of the record, or "saving": the checkpoint thread is at a checkpoint."""
    since: int = 0
    """The step it has at least."""

    def __call__(self, flight: Flight) -> bool:
        saves = flight.saving_since_s is not None
        here = saves if self.phase == "saving" else flight.phase == self.phase
        return here and flight.step >= self.since


class Gate:
    """Where the next trainer that comes there stops."""

    def __init__(self, run: Path) -> None:
        self.file = run.with_name(f"{run.name}.gate")
        self._reached = self.file.with_suffix(".reached")

    def variable(self) -> dict[str, str]:
        """For the environment of a run."""
        return {VARIABLE: str(self.file)}

    def shut(self, where: Where) -> None:
        self._reached.unlink(missing_ok=True)
        draft = self.file.with_suffix(".draft")
        draft.write_text(f"{where.phase} {where.since}")
        draft.rename(self.file)  # at once: a trainer may be reading

    def reached(self) -> bool:
        return self._reached.exists()
