"""The sizes of a table: those that were given, the others from the budget, each with its reason."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypedDict

from ttf.data.embedding.hot_rows import ROW_BYTES, SLOT_BYTES
from ttf.data.embedding.records import Layout
from ttf.errors import ConfigError, suggestion
from ttf.machine.memory.limits import budget_bytes, limit_in_force

FEWEST_SLOTS: Final = 64
# Of what the budget leaves beside the places: rows that wait to be written, and rows on their way
# between file and memory, which are there up to three times.
_WAITING_SHARE: Final = 16
_MOVING_SHARE: Final = 64
_COPIES: Final = 3
_MOST_WAITING: Final = 64 << 20
_MOST_CHUNK: Final = 1 << 14
JOURNAL_BYTES: Final = 1 << 30  # Until auto_sync applies it.
_FEWEST_MOVED: Final = 8
_MB: Final = 10**6


class Sizes(TypedDict, total=False):
    """What may be given to a table beside its budget; all of it is "auto" by itself."""

    l1_mb: float | None
    """Memory for hot rows, in megabytes; instead of a budget."""
    l2_mb: float | None
    """Memory for changed rows that wait to be written."""
    chunk: int | None
    """Rows that are moved at a time between file and memory."""
    sync_every: int | None
    """Syncs after so many calls that change rows."""
    auto_sync: bool
    """Also syncs when the journal has grown by a gigabyte; true by itself."""


@dataclass(frozen=True, kw_only=True)
class Settled:
    slots: int
    waiting_bytes: int
    chunk: int
    sync_every: int  # 0: never by the number of calls.
    auto_sync: bool
    reasons: Mapping[str, str]


def settle(budget: int | str, rows: int, layout: Layout, given: Sizes) -> Settled:
    _refuse_unknown(given)
    l1, l2, chunk = given.get("l1_mb"), given.get("l2_mb"), given.get("chunk")
    if l1 is not None and budget != "auto":
        raise ConfigError(
            "An embedding table takes either budget or l1_mb, not both.",
            hint="budget is the memory of everything that the table keeps; l1_mb that of its hot rows.",
        )
    free = budget_bytes(budget) - rows * ROW_BYTES
    given_waiting = None if l2 is None else int(l2 * _MB)
    waiting = min(_MOST_WAITING, max(0, free) // _WAITING_SHARE)
    by_share = max(0, free) // (_MOVING_SHARE * layout.size)
    at_once = chunk or min(_MOST_CHUNK, max(_FEWEST_MOVED, by_share))
    beside = (waiting if given_waiting is None else given_waiting) + _COPIES * at_once * layout.size
    if l1 is not None:
        slots = min(rows, max(FEWEST_SLOTS, int(l1 * _MB) // (layout.size + SLOT_BYTES)))
    else:
        slots = _fitting(free - beside, rows, layout, budget)
    every = given.get("sync_every") or 0
    reasons = {
        "l1_mb": _why_slots(budget, slots, rows, layout, given_l1=l1),
        "l2_mb": "given"
        if l2 is not None
        else f"{waiting:,} bytes: a sixteenth of what the budget leaves beside the places of the "
        f"rows, at most {_MOST_WAITING:,}",
        "chunk": "given"
        if chunk is not None
        else f"{at_once:,} rows: a sixty-fourth of the budget, at most {_MOST_CHUNK:,}; a larger "
        "one reads no faster",
        "sync_every": "given"
        if every
        else "never by the number of calls: a sync protects against a kill, and how much work may "
        "be lost is the caller's to say",
        "auto_sync": f"true: syncs when the journal has grown by {JOURNAL_BYTES:,} bytes"
        if given.get("auto_sync", True)
        else "given as false: the journal grows until sync is called",
    }
    return Settled(
        slots=slots,
        waiting_bytes=waiting if given_waiting is None else given_waiting,
        chunk=at_once,
        sync_every=every,
        auto_sync=bool(given.get("auto_sync", True)),
        reasons=reasons,
    )


def _why_slots(
    budget: int | str, slots: int, rows: int, layout: Layout, *, given_l1: float | None
) -> str:
    have = f"{slots:,} of {rows:,} rows of {layout.size} bytes"
    if given_l1 is not None:
        return f"given: {have}"
    if slots == rows:
        return f"all {have}: they fit"
    if budget == "auto":
        limit = limit_in_force()
        return f"{have}: a quarter of the {limit.bytes:,} bytes of {limit.source}, at least 1 GiB"
    return f"{have}: what the budget of {budget_bytes(budget):,} bytes leaves"


def _fitting(left: int, rows: int, layout: Layout, budget: int | str) -> int:
    slots = left // (layout.size + SLOT_BYTES)
    if slots < min(rows, FEWEST_SLOTS):
        least = min(rows, FEWEST_SLOTS) * (layout.size + SLOT_BYTES) * 8 // 7 + layout.size
        raise ConfigError(
            f"A budget of {budget_bytes(budget):,} bytes is too small for an embedding table of "
            f"{rows:,} rows: the places of the rows alone take {rows * ROW_BYTES:,}, and it needs "
            f"about {rows * ROW_BYTES + least:,}."
        )
    return int(min(slots, rows))


def _refuse_unknown(given: Sizes) -> None:
    known = Sizes.__annotations__
    for name, value in given.items():
        if name not in known:
            raise ConfigError(
                f"An embedding table has no parameter {name!r}.{suggestion(name, known)}"
            )
        if name != "auto_sync" and value is not None and not _above_zero(value):
            raise ConfigError(f"{name} of an embedding table must be above 0, not {value!r}.")


def _above_zero(value: object) -> bool:
    return isinstance(value, int | float) and value > 0
