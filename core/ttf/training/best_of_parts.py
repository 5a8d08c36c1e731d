"""The best rows of a bank of which each process has searched a part, in two portions.

First each tells as many of its rows as it has among the best on average, then only what may still be
among them: together hardly more than one row for each answer, whatever the number of processes.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from ttf.mining.scan.merged_parts import beyond, merged, with_more
from ttf.training.team import Team

Keys = NDArray[np.int64]


def best_of_parts(
    team: Team, queries: Sequence[range], read: Callable[[int, int], Keys], width: int
) -> Iterator[tuple[int, Keys]]:
    """The first query of a portion, and the `width` best keys of its queries.

    `queries`: all of them for each process that has a part of the bank, else none. `read` gives the
    `width` best keys of the own part. To be exhausted; raise nothing on the way."""
    parts = sum(1 for own in queries if own)
    first = -(-width // parts)
    kept: dict[int, Keys] = {}  # Of the own part, until the others have told theirs.

    def first_of(start: int, stop: int) -> Keys:
        kept[start] = read(start, stop)
        return kept[start][:, :first]

    pieces = team.pieces(queries, first_of, (first,), np.dtype(np.int64))
    for start, of_parts in itertools.groupby(pieces, lambda piece: piece[0]):
        best = merged([np.array(part) for _, part in of_parts], width)
        own = kept.pop(start, np.empty((len(best), 0), np.int64))
        more = beyond(own, first, best)
        yield start, with_more(best, team.together("more candidates", more))
