"""The best rows of the parts of a bank, merged: bit for bit those of the whole bank."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from numpy.typing import NDArray

from ttf.data.sources import MemorySource
from ttf.machine.processor import FirstPass
from ttf.mining.scan.bf16_bank import open_half
from ttf.mining.scan.certified_top_k import Scan
from ttf.mining.scan.merged_parts import Answers, best_of, keys_of, merged
from ttf.mining.scan.scan_counters import ScanTally

Rows = NDArray[np.float32]


def scan_of(bank: Rows, first: FirstPass) -> Scan:
    half = open_half(MemorySource(bank), None, print)
    return Scan(bank=half, threads=1, budget_bytes=1 << 26, first=first)


def cut(rows: int, parts: int, rng: np.random.Generator) -> list[range]:
    """Of any lengths; one may be empty."""
    edges = [0, *np.sort(rng.integers(0, rows + 1, parts - 1)).tolist(), rows]
    return [range(a, b) for a, b in itertools.pairwise(edges)]


def vectors(kind: str, rows: int, rng: np.random.Generator) -> Rows:
    if kind == "ties":  # small whole numbers: every product is exact, and many are equal
        return rng.integers(-1, 2, (rows, 6)).astype(np.float32)
    found = rng.standard_normal((rows, 6)).astype(np.float32)
    if kind == "duplicates":
        return found[rng.integers(0, max(1, rows // 4), rows)]
    return found


def from_parts(
    bank: Rows, parts: list[range], answer: Rows, k: int, first: FirstPass
) -> NDArray[np.int64]:
    keys = []
    for part in parts:
        if part:
            found = scan_of(bank[part.start : part.stop], first).top_k(answer, k, ScanTally())
            keys.append(keys_of(found, part.start))
    return merged(keys, k)


def assert_equal(found: Answers, wanted: Answers) -> None:
    for place in (0, 1):
        assert found[place].dtype == wanted[place].dtype
        assert found[place].tobytes() == wanted[place].tobytes()


@pytest.mark.parametrize("first", ["bf16", "fp32"])
@pytest.mark.parametrize("kind", ["any", "ties", "duplicates"])
@settings(max_examples=12, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    parts=st.sampled_from([1, 2, 3, 7]),
    rows=st.integers(8, 400),
    k=st.sampled_from([1, 5, 40]),
)
def test_the_best_of_the_parts_are_those_of_the_whole_bank(
    first: FirstPass, kind: str, seed: int, parts: int, rows: int, k: int
) -> None:
    rng = np.random.default_rng(seed)
    bank, queries = vectors(kind, rows, rng), vectors(kind, 9, rng)
    keys = from_parts(bank, cut(rows, parts, rng), queries, min(k, rows), first)
    wanted = scan_of(bank, first).top_k(queries, k, ScanTally())
    assert_equal(best_of(keys, min(k, rows)), wanted)


@pytest.mark.parametrize("within", [None, 20])
@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    parts=st.sampled_from([1, 2, 3, 7]),
    kind=st.sampled_from(["any", "ties", "duplicates"]),
)
def test_below_ceilings_too_also_where_a_part_has_no_candidate(
    within: int | None, seed: int, parts: int, kind: str
) -> None:
    rng, k = np.random.default_rng(seed), 4
    bank, queries = vectors(kind, 120, rng), vectors(kind, 9, rng)
    ranked = -np.sort(-(queries @ bank.T), axis=1)
    ceilings = ranked[np.arange(9), rng.integers(0, 120, 9)].astype(np.float32)
    ceilings[0], ceilings[1] = -np.inf, np.inf  # none counts, all count
    wanted = scan_of(bank, "bf16").top_k_below(queries, k, ceilings, ScanTally(), within)
    some = cut(120, parts, rng)
    if within is None:  # each part looks below the ceilings
        keys = []
        for part in filter(None, some):
            scan = scan_of(bank[part.start : part.stop], "bf16")
            found = scan.top_k_below(queries, k, ceilings, ScanTally())
            keys.append(merged([keys_of(found, part.start)], k))
        assert_equal(best_of(merged(keys, k), k), wanted)
    else:  # which are the nearest of all is known when they are merged
        keys_of_all = from_parts(bank, some, queries, within, "bf16")
        assert_equal(best_of(keys_of_all, k, ceilings), wanted)
