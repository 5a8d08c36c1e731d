"""The nearest memory limit, by its share or by the time until it is reached."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ttf.machine.memory.watch import Gauge, Reading
from ttf.tools.monitor.trend import TOO_EARLY, WINDOW_S, Point, Trend, seconds_left, trend

_MOST_POINTS: Final = 4096


@dataclass(frozen=True, kw_only=True)
class NearestLimit:
    """The limit, and when it is reached if memory grows as before."""

    bytes: int
    source: str  # its name, as in `memory.watch.Reading`
    held: int  # Counted against it: all processes of a control group, or of the machine.
    share: float
    rising: bool | None  # None: too early to say
    slope_per_s: float
    seconds_left: float | None  # None: not rising, or more than a day


class LimitWatch:
    """Follows every limit of a process tree. Each limit has its own series: the memory of the
    group, of the machine and of one process's address space do not rise together."""

    def __init__(self, pid: int) -> None:
        self._gauge = Gauge(pid)
        self._series: dict[str, deque[Point]] = {}

    def look(self, now: float, tree: Sequence[Point]) -> NearestLimit:
        """`tree`, the memory of the processes since earlier, replaces a series that is too short.

        Raises ProcessLookupError.
        """
        readings = self._gauge.readings()
        for reading in readings:
            self._note(now, reading)
        sources = {reading.source for reading in readings}
        for source in self._series.keys() - sources:  # its process has ended
            del self._series[source]
        limits = [self._limit(reading, tree) for reading in readings]
        return min(limits, key=_nearness)

    def _note(self, now: float, reading: Reading) -> None:
        points = self._series.setdefault(reading.source, deque(maxlen=_MOST_POINTS))
        points.append((now, reading.held))
        forget_before(points, now - WINDOW_S)

    def _limit(self, reading: Reading, tree: Sequence[Point]) -> NearestLimit:
        found = trend(self._series[reading.source])
        if found.rising is None:
            found = trend(tree)
        return limit_of(reading, found)


def limit_of(reading: Reading, found: Trend = TOO_EARLY) -> NearestLimit:
    return NearestLimit(
        bytes=reading.limit,
        source=reading.source,
        held=reading.held,
        share=reading.share,
        rising=found.rising,
        slope_per_s=found.per_s,
        seconds_left=seconds_left(found, reading.held, reading.limit),
    )


def forget_before(points: deque[Point], begin: float) -> None:
    while points and points[0][0] < begin:
        points.popleft()


def _nearness(limit: NearestLimit) -> tuple[float, float]:
    # First limits that are reached within a day, the soonest first; then by share.
    left = float("inf") if limit.seconds_left is None else limit.seconds_left
    return left, -limit.share
