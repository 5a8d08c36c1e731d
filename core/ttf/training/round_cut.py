"""How a mining round is cut: what the miner of each process searches, and for which queries."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ttf.training.team import Team

# Scores of positives are computed for so many at a time, and queries of miners are cut there.
QUERIES_AT_ONCE: Final = 1024
_ROWS_AT_ONCE: Final = 64  # What the scan of a bank looks at together.
_NONE: Final = range(0)


@dataclass(frozen=True, kw_only=True)
class Cut:
    """Of each process: the queries that its miner answers, and the rows of the bank that it searches
    for them; empty if it has no miner."""

    queries: list[range]
    rows: list[range]
    by_rows: bool  # Each miner answers all queries from a part of the bank.


def cut_round(team: Team, mines: Sequence[bool], queries: int, rows: int, *, by_rows: bool) -> Cut:
    """`mines`: which processes have a miner; the first always does."""
    bank = range(rows)
    if by_rows:
        own = _of_miners(team.parts(rows, _ROWS_AT_ONCE), mines)
        asked = [range(queries) if part else _NONE for part in own]
        return Cut(queries=asked, rows=own, by_rows=True)
    asked = _of_miners(team.parts(queries, QUERIES_AT_ONCE), mines)
    return Cut(queries=asked, rows=[bank if part else _NONE for part in asked], by_rows=False)


def _of_miners(parts: Sequence[range], mines: Sequence[bool]) -> list[range]:
    """Those that mine get the parts of the processes up to the next one that does."""
    first = [at for at, does in enumerate(mines) if does and at]
    found = [_NONE] * len(parts)
    for at, following in itertools.pairwise([0, *first, len(parts)]):
        found[at] = range(parts[at].start, parts[following - 1].stop)
    return found
