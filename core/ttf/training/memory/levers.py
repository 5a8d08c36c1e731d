"""What can be made smaller in mid-run without a change of any number."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ttf.data.ahead import Ahead
from ttf.machine.memory.govern import Size

if TYPE_CHECKING:
    from ttf.training.tables import Tables

# Of the memory for hot rows: with less, a step waits for its own rows.
_LEAST_TABLES: Final = 4


@dataclass(frozen=True, kw_only=True)
class Lever:
    """A part of a run's memory. Its size changes no number of the run, only its speed.

    `now` and `set` in bytes. `set` is called from any thread at any time, or `between_steps` from the
    main thread.
    """

    name: str
    now: Callable[[], int]
    least: int
    most: int
    set: Callable[[int], None]
    between_steps: bool = False
    used: Callable[[], int] | None = None  # what it holds, if that may be less than it may hold

    def size(self) -> Size:
        now = self.now()
        return Size(
            name=self.name,
            now=now,
            least=min(self.least, now),
            most=max(self.most, now),
            used=None if self.used is None else self.used(),
        )


def of_rows_ahead(ahead: Ahead, micro_batch_bytes: int) -> Lever:
    """Micro-batches that are read before they are needed."""
    unit = max(1, micro_batch_bytes)
    return Lever(
        name="read ahead",
        now=lambda: ahead.items * unit,
        least=unit,
        most=ahead.items * unit,
        set=lambda size: ahead.set(size // unit),
        used=lambda: ahead.waiting * unit,
    )


def of_idle_miner(held: Callable[[], int], release: Callable[[], None]) -> Lever:
    """The process of the miner between two rounds, with its index if it has one. It can only end; the
    next round starts it again."""
    return Lever(
        name="idle miner",
        now=held,
        least=0,
        most=0,
        set=lambda _: release(),
        between_steps=True,
    )


def of_tables(tables: Tables) -> Lever:
    """The hot rows of embedding tables. Rows that leave are written back; none changes."""
    whole, places = tables.budget_bytes, tables.places_bytes
    return Lever(
        name="tables",
        now=lambda: tables.budget_bytes,
        least=places + max(0, whole - places) // _LEAST_TABLES,
        most=whole,
        set=tables.resize,
        between_steps=True,
    )
