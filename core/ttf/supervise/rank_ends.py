"""How the trainers of an attempt ended, and which of these ends was the cause of the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

# finished, left: with all others, as it should be. told: an error that the run ends with. died: by
# itself, or because it did not answer. lost: because others were gone. ended: by us, for the same
# reason.
Kind = Literal["finished", "left", "told", "died", "lost", "ended"]
TOGETHER: Final[frozenset[Kind]] = frozenset({"finished", "left"})
CAUSES: Final[frozenset[Kind]] = frozenset({"told", "died"})
# Classes of a trainer that lost others. The first says least.
CONSEQUENCES: Final = ("peer-lost", "network-partition", "store-lost", "rendezvous-failed")


@dataclass(frozen=True, kw_only=True)
class RankEnd:
    rank: int
    host: str
    kind: Kind
    step: int = 0  # Steps done: all ranks do the same step at the same time.
    phase: str = ""
    at: float = 0.0  # On the clock of who compares.
    name: str = ""  # The incident's class; empty where nothing is to be explained.

    @property
    def text(self) -> str:
        """For people: what became of it."""
        if self.kind in TOGETHER:
            return "it had finished"
        where = f" in {self.phase} at step {self.step}" if self.phase else ""
        return f"{'ended by ttf' if self.kind == 'ended' else self.name or self.kind}{where}"


def first_cause(ends: Sequence[RankEnd]) -> RankEnd | None:
    """The end that the others follow from; None if all ended as they should. Who lost the others is
    the cause only where nothing else is found."""
    if all(end.kind in TOGETHER for end in ends):
        return None
    for kinds in (CAUSES, frozenset({"lost"}), frozenset({"ended"})):
        found = [end for end in ends if end.kind in kinds]
        if found:
            return min(found, key=lambda end: (_says_least(end), end.step, end.at, end.rank))
    raise AssertionError("every kind is one of these")


def _says_least(end: RankEnd) -> bool:
    return end.kind == "lost" and end.name == CONSEQUENCES[0]
