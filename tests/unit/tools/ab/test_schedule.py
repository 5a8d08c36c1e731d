"""The order of repeats: paired, random, balanced, and stable where a study grows."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, strategies as st

from ttf.tools.ab.setup import Cell, next_wave, schedule

ARMS = st.integers(2, 6).map(lambda count: [f"arm {number}" for number in range(count)])
REPEATS, SEEDS = st.integers(1, 12), st.integers(0, 1000)


@given(ARMS, REPEATS, SEEDS)
def test_a_block_has_every_arm_once_with_one_seed_and_no_other_block_has_it(
    arms: list[str], repeats: int, seed: int
) -> None:
    cells = schedule(arms, repeats, seed)
    assert len(cells) == len(set(cells)) == repeats * len(arms)
    for block in range(1, repeats + 1):
        found = [cell for cell in cells if cell.block == block]
        assert sorted(cell.arm for cell in found) == arms
        assert [cell.position for cell in found] == list(range(len(arms)))
        assert {cell.seed for cell in found} == {seed + block}


@given(ARMS, st.integers(1, 6), SEEDS)
def test_every_two_blocks_a_steady_drift_of_the_machine_meets_all_arms_alike(
    arms: list[str], pairs: int, seed: int
) -> None:
    slowness: Counter[str] = Counter()
    for moment, cell in enumerate(schedule(arms, 2 * pairs, seed)):
        slowness[cell.arm] += moment
    assert len(set(slowness.values())) == 1


@given(ARMS, REPEATS, st.integers(0, 5), SEEDS)
def test_more_repeats_change_none_of_those_before(
    arms: list[str], repeats: int, more: int, seed: int
) -> None:
    assert schedule(arms, repeats + more, seed)[: repeats * len(arms)] == schedule(
        arms, repeats, seed
    )


def test_orders_are_random_and_the_same_everywhere() -> None:
    first = [cell.arm for cell in schedule(["a", "b", "c"], 8, 0) if cell.position == 0]
    assert set(first) == {"a", "b", "c"}
    assert "".join(cell.arm for cell in schedule(["a", "b"], 8, 0)) == "abbabaababbaabba"


@given(ARMS, REPEATS, st.integers(1, 9), st.data())
def test_a_wave_is_of_whole_blocks_where_they_fit_beside_one_another(
    arms: list[str], repeats: int, parallel: int, data: st.DataObject
) -> None:
    cells = schedule(arms, repeats, 0)
    done = data.draw(st.sets(st.sampled_from([(c.block, c.arm) for c in cells])))
    ran: list[Cell] = []
    while wave := next_wave(cells, done, len(arms), parallel):
        blocks = {cell.block for cell in wave}
        assert len(blocks) <= max(1, parallel // len(arms))
        assert {c.block for c in ran} < blocks | {c.block for c in ran}
        done |= {(cell.block, cell.arm) for cell in wave}
        assert not {c for c in cells if c.block in blocks and (c.block, c.arm) not in done}
        ran += wave
    assert ran == sorted(ran) and len(done) == len(cells)
