"""When a table gives memory back, and when it takes some again.

The marks lie apart, and a change is followed by a pause: a table that has given rows back does not take
them again at once, so it does not swing. Judged by memory that cannot be dropped, and by the time that
processes wait for memory; page cache is no pressure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from ttf.machine.memory.headroom import Headroom

HIGH: Final = 0.90
TARGET: Final = 0.80
LOW: Final = 0.70
STALLED: Final = 0.10  # Share of the last ten seconds.
SHRINK_AGAIN_S: Final = 10.0
GROW_AGAIN_S: Final = 60.0


@dataclass(frozen=True, kw_only=True)
class Eviction:
    """What `adaptive_eviction` did, and why."""

    reason: str
    rows_before: int
    rows_after: int
    before: Headroom
    after: Headroom

    @property
    def action(self) -> Literal["shrunk", "grown", "kept"]:
        if self.rows_after == self.rows_before:
            return "kept"
        return "shrunk" if self.rows_after < self.rows_before else "grown"

    def line(self) -> str:
        rows = f"memory for {self.rows_after:,} rows"
        if self.rows_after != self.rows_before:
            rows = f"memory for {self.rows_before:,} rows -> {self.rows_after:,}"
        return f"{self.action}: {rows}; {_used(self.before)} -> {_used(self.after)}; {self.reason}"


@dataclass(kw_only=True)
class EvictionRule:
    most: int
    fewest: int
    _changed_at: float = float("-inf")

    def slots(self, slots: int, row_bytes: int, now_used: Headroom, now: float) -> tuple[int, str]:
        """How many rows memory should be for from now on, and why; `now` in seconds."""
        share, pause = now_used.share, now - self._changed_at
        stalled = (now_used.stalled or 0.0) >= STALLED
        if share > HIGH or (stalled and share > TARGET):
            if pause < SHRINK_AGAIN_S:
                return slots, f"the last change was {pause:.0f} s ago"
            # At least an eighth: a table that gives back too little is asked again and again.
            over = (now_used.used - int(TARGET * now_used.limit)) // row_bytes
            wanted = max(self.fewest, slots - max(over, slots // 8))
            return self._changed(slots, wanted, now, f"{_why(now_used)}")
        if share >= LOW or slots >= self.most or (now_used.stalled or 0.0) > STALLED / 10:
            return slots, f"{_why(now_used)}: enough, and no reason to change"
        if pause < GROW_AGAIN_S:
            return slots, f"there is room, but the last change was {pause:.0f} s ago"
        # Up to halfway between the marks: the new rows alone lead to no eviction.
        free = int((LOW + TARGET) / 2 * now_used.limit) - now_used.used
        return self._changed(slots, min(self.most, slots + free // row_bytes), now, _why(now_used))

    def _changed(self, slots: int, wanted: int, now: float, why: str) -> tuple[int, str]:
        if wanted == slots:
            return slots, f"{why}, but memory is for {slots:,} rows, the fewest or the most"
        self._changed_at = now
        return wanted, why


def _used(memory: Headroom) -> str:
    return f"{memory.used / 1e6:,.0f} MB"


def _why(memory: Headroom) -> str:
    waiting = "" if memory.stalled is None else f", processes waited {memory.stalled:.0%} of 10 s"
    unknown = "; this system does not tell whether processes wait" if memory.stalled is None else ""
    return (
        f"{memory.share:.0%} of {memory.limit / 1e6:,.0f} MB ({memory.source}) cannot be dropped"
        f"{waiting}{unknown}"
    )
