"""The simulated caches against what is known about them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ttf.data.embedding.hot_rows import HotRows
from ttf.data.embedding.look_ahead import NEVER
from ttf.data.embedding.records import Layout
from ttf.tools.bench.cache import TRACES, simulate
from ttf.tools.bench.cache_policies import POLICIES

ROWS, SIZE = 2000, 500


def hit_rates(trace: str) -> dict[str, float]:
    rows = TRACES[trace](ROWS, 8 * ROWS).tolist()
    return {policy: simulate(policy, rows, SIZE).hit_rate for policy in POLICIES}


def test_on_shuffled_epochs_lru_has_the_rate_of_the_formula_and_belady_at_least_the_share() -> None:
    found = hit_rates("epochs, shuffled")
    share = SIZE / ROWS
    assert found["LRU"] == pytest.approx(share + (1 - share) * math.log(1 - share), abs=0.01)
    assert found["Belady"] >= share
    assert found["Belady"] == max(found.values())


def test_on_skewed_rows_sieve_is_better_than_lru_and_belady_best() -> None:
    found = hit_rates("Zipf(1.0)")
    assert found["LRU"] < found["CLOCK"] < found["SIEVE"] < found["Belady"]


def test_without_a_pattern_no_policy_but_belady_is_better_than_chance() -> None:
    found = hit_rates("uniform")
    for policy in ("LRU", "LFU", "CLOCK", "SIEVE"):
        assert found[policy] == pytest.approx(SIZE / ROWS, abs=0.05)
    assert found["Belady"] > 0.4


def test_the_rows_of_a_table_go_as_the_simulation_says() -> None:
    trace = TRACES["Zipf(1.0)"](ROWS, 8 * ROWS)
    hot = HotRows(ROWS, SIZE, Layout(dim=4, state=0, seed=0))
    hits = 0
    for at, row in enumerate(trace):
        ids = np.array([row])
        slots = hot.slots_of(ids)
        if slots[0] >= 0:
            hits += at >= ROWS
        else:
            gone = hot.victims(1, -1)
            hot.empty(gone)
            slots = hot.fill(ids, NEVER)
            assert hot.occupied <= SIZE
        hot.used(slots)
    simulated = simulate("SIEVE", trace.tolist(), SIZE).hit_rate
    assert hits / (7 * ROWS) == pytest.approx(simulated, abs=0.02)
