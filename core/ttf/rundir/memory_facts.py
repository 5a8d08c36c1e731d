"""What the files of a run say about its memory limit; part of `ttf.rundir.documents`."""

from __future__ import annotations

from typing import Literal, TypedDict


class MemorySummary(TypedDict, total=False):
    """How the limit of a run was kept."""

    limit_mb: float  # At the last start; its name is `source`.
    source: str
    pressure: str | None  # The file that tells how long programs wait for memory; null: none does.
    shrunk: int  # Times that caches were made smaller, and larger again.
    grown: int
    freed_mb: float


class ChangedCache(TypedDict, total=False):
    """A cache whose size changed; bytes."""

    name: str
    before: int
    after: int


class GovernorLine(TypedDict, total=False):
    """The governor of memory.limit made caches smaller or larger; bytes."""

    type: Literal["memory"]
    time: float
    step: int
    # effect: what is held some steps after shrink or grow; limit: it changed; short: memory is
    # short, and no cache is left to make smaller.
    what: Literal["shrink", "grow", "effect", "limit", "short"]
    why: str
    held: int  # Against the nearest limit.
    limit: int
    source: str
    stalled: float | None  # Share of the time that some program waited for memory; null: unknown.
    levers: list[ChangedCache]
    held_before: int
    limit_before: int
