"""Do all ranks hold the same weights, and does a neighbour compute the same gradient?

All ranks should have the same bits, so a difference is a fault: a flipped bit in memory, a processor
that multiplies wrongly. Weights that drifted apart show in their hashes. A gradient that one rank
computed wrongly reaches all ranks alike and shows in no hash: for that, each rank computes a shard of
its neighbour again.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from torch import Tensor

from ttf.errors import RanksDrifted
from ttf.rundir.world_place import WorldPlace

# Steps between two looks. The hash of 5 million weights takes 20 ms; a neighbour's shard as long as
# one's own.
WEIGHTS_EVERY: Final = 64
SHARD_EVERY: Final = 256
_HINT: Final = (
    "A memory or processor fault is likely: test that host (memtest, `ttf doctor`) before it trains "
    "again. Every checkpoint was agreed on by all ranks before it was written."
)


def digest(tensors: Iterable[Tensor]) -> int:
    """64 bits of the content; never 0."""
    found = hashlib.blake2b(digest_size=8)
    for tensor in tensors:
        found.update(tensor.detach().cpu().contiguous().view(-1).numpy().data)
    return int.from_bytes(found.digest(), "little") or 1


def refuse_drift(place: WorldPlace, step: int, digests: Sequence[int]) -> None:
    """Raises RanksDrifted; names those that differ from most others."""
    if len(set(digests)) == 1:
        return
    most, count = Counter(digests).most_common(1)[0]
    others = [rank for rank, found in enumerate(digests) if found != most]
    if 2 * count > len(digests):
        named = ", ".join(place.host_of(rank) for rank in others)
        which = f"{named} has other weights than the other {count}"
    else:
        which = "there are two groups of equal size, so nobody can say which is right"
    raise RanksDrifted(
        f"The ranks hold different weights after step {step:,}: {which}.", hint=_HINT
    )


def refuse_other_shards(
    place: WorldPlace, step: int, own: Sequence[int], again: Sequence[int]
) -> None:
    """`own`: of each rank, its first shard's gradient; `again`: that of the next rank, computed once
    more by this one. Raises RanksDrifted."""
    size = len(own)
    wrong = [rank for rank in range(size) if again[rank] != own[(rank + 1) % size]]
    if not wrong:
        return
    # A rank that computes wrongly differs as the one that checks and as the one that is checked.
    pairs = [(rank, (rank + 1) % size) for rank in wrong]
    counted = Counter(rank for pair in pairs for rank in pair)
    suspect, seen = counted.most_common(1)[0]
    who = (
        f"{place.host_of(suspect)} differs from both neighbours"
        if seen > 1
        else " and ".join(place.host_of(rank) for rank in pairs[0]) + " differ"
    )
    raise RanksDrifted(
        f"The same gradient has different bits in step {step + 1:,}: {who}.", hint=_HINT
    )
