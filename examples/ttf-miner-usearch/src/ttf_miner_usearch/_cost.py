"""What a usearch graph costs and finds, from static rates: a choice must not differ between two runs.

Fitted to the definitions of WordNet (52,000 x 384, k = 200) and a made bank (100,000 x 768), one
thread of 2 x AMD EPYC (Zen 5, 32 MiB of L3), usearch 2.26.6, numkong 7.8.6, 2026-11-19; the README
has the table.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from ttf import MinerContext, MinerCost

from ttf_miner_usearch.usearch_miner import ITEM_BYTES, build_threads

if TYPE_CHECKING:
    from ttf_miner_usearch.usearch_miner import UsearchOptions

_CANDIDATE_S: Final = {"f32": 6.5e-10, "f16": 2.9e-10, "bf16": 2.3e-10}
"""Per candidate, number of a row and fourth root of the rows, with 32 links: a candidate's links are
followed, and the larger the bank, the fewer of them are in a cache."""
_LINKS: Final = 32
_LINKS_POWER: Final = 0.4
_ENTRY: Final = 50
"""Candidates on the way down to the lowest level."""
_SCORED_S: Final = 1.5e-9
"""Per answer and number of a row: half precision is scored again by the bank's rows."""

_MISSED: Final = 0.0096
"""Of the 200 best of 52,000, with 32 links and 256 candidates."""
_FURTHER: Final = 2.9
"""Looking twice as far misses a seventh."""
_MEASURED: Final = 52_000, 256 / 200


def estimate(
    rows: int, dim: int, queries: int, k: int, options: UsearchOptions, context: MinerContext
) -> MinerCost:
    width = max(options.expansion_search, k)
    scored_s = 0.0 if options.dtype == "f32" else queries * k * dim * _SCORED_S
    return MinerCost(
        build_s=rows * _walk_s(rows, dim, options.expansion_add, options) / build_threads(context),
        search_s=queries * _walk_s(rows, dim, width, options) / context.threads + scored_s,
        anon_bytes=memory_bytes(rows, dim, options),
        disk_bytes=64 + rows * (ITEM_BYTES[options.dtype] * dim + _link_bytes(options)),
        recall=_recall(rows, k, width, options),
    )


def memory_bytes(rows: int, dim: int, options: UsearchOptions) -> int:
    """Vectors, links, and what stands around each: allocators' rounding, a lock, a place in a
    table that doubles."""
    return rows * (ITEM_BYTES[options.dtype] * dim + _link_bytes(options) + 96)


def _link_bytes(options: UsearchOptions) -> int:
    """Of a row on disk: twice the links on the lowest level, 4 bytes each, and some above."""
    return 8 * options.connectivity + 24


def _walk_s(rows: int, dim: int, width: int, options: UsearchOptions) -> float:
    links = math.pow(options.connectivity / _LINKS, _LINKS_POWER)
    follow_s = _CANDIDATE_S[options.dtype] * max(dim, 64) * math.pow(max(rows, 1000), 0.25) * links
    return follow_s * (width + _ENTRY)


def _recall(rows: int, k: int, width: int, options: UsearchOptions) -> float:
    measured_rows, measured_width = _MEASURED
    missed = _MISSED * math.pow(measured_width * k / width, _FURTHER)
    missed *= math.sqrt(rows / measured_rows) * _LINKS / options.connectivity
    return max(0.0, 1.0 - missed)
