"""Which memory of a command grew before it met its limit: two looks at the mappings of its processes."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from ttf.machine.memory.mappings import HELD, Growth, Part, grown, parts_of
from ttf.text.numbers import duration, size

# Of the limit: the first look is made when so much is held, the last ones from here on.
FIRST_AT: Final = 0.1
LAST_FROM: Final = 0.4
# A look reads every mapping: 10 ms for each gigabyte. Less than 2% of a processor.
_DUTY: Final = 50
_LEAST_PAUSE_S: Final = 0.5
_SHOWN: Final = 4
_WORTH: Final = 0.05  # of what grew in all
_WHY: Final[Mapping[str, str]] = {
    "shared memory": "batches that DataLoader workers have made and nobody has taken yet lie here: "
    "num_workers x prefetch_factor x batch",
    "children": "each child has its own copy of what it touches, also of objects that were there "
    "before the fork",
}


class GrowthWatch:
    """Call `look` with each sample of what the command holds."""

    def __init__(self, root: int) -> None:
        self._root = root
        self._began = time.monotonic()
        self._first: tuple[float, dict[Part, int]] | None = None
        self._last: tuple[float, dict[Part, int]] | None = None
        self._next = 0.0

    def look(self, held: int, limit: int, pids: Sequence[int], *, now: bool = False) -> None:
        """`now`: in any case, as this is the last chance."""
        at = time.monotonic()
        first = self._first is None and held >= FIRST_AT * limit
        last = held >= LAST_FROM * limit and at >= self._next
        if not (first or last or now):
            return
        seen = (at - self._began, parts_of(pids))
        self._next = at + max(_LEAST_PAUSE_S, _DUTY * (time.monotonic() - at))
        if not seen[1]:  # they have just been killed
            return
        if self._first is None:
            self._first = seen
        if last or now:
            self._last = seen

    def told(self) -> Iterator[str]:
        """Paragraphs; none if the memory never came near the limit."""
        if self._last is None or not self._last[1]:
            return
        at, after = self._last
        since, before = self._first or (0.0, {})
        if since >= at:  # it grew faster than one looks
            since, before = 0.0, {}
        lines = list(_by_kind(grown(before, after), self._root))
        if not lines:
            return
        begin = sum(b for part, b in before.items() if part.kind in HELD)
        end = sum(b for part, b in after.items() if part.kind in HELD)
        from_, to = f"{size(begin)} after {duration(since)}", f"{size(end)} after {duration(at)}"
        yield f"Memory that grew, from {from_} to {to}:"
        yield from lines


def _by_kind(growths: Sequence[Growth], root: int) -> Iterator[str]:
    """One line for each kind of the command and of all its children together."""
    sums: dict[tuple[bool, str, str], tuple[int, set[int]]] = {}
    for growth in growths:
        part = growth.part
        shared = part.kind == "shared memory"  # of all processes: it is there once
        key = (part.pid != root and not shared, part.kind, part.name)
        total, pids = sums.get(key, (0, set()))
        sums[key] = (total + growth.bytes, pids | {part.pid})
    whole = sum(total for total, _ in sums.values())
    ranked = sorted(sums.items(), key=lambda item: -item[1][0])
    for (below, kind, name), (total, pids) in ranked[:_SHOWN]:
        if total < _WORTH * whole:
            continue
        who = f"the command (process {root})"
        if kind == "shared memory":
            who = "all processes"
        elif below:
            who = f"{len(pids)} child process{'es' * (len(pids) > 1)}"
        of = f" ({name})" if name else ""
        why = _WHY.get("children" if below else kind, "")
        yield f"- {kind} of {who}{of}: +{size(total)}{f'; {why}' if why else ''}"
