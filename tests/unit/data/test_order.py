"""Keyed randomness and the order of rows: bijections, uniform, and nothing but their arguments."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from numpy.typing import NDArray

from ttf.data.order import Order, Permutation, hash64, key, uniform

TRIALS = 750


def permuted(size: int, seed: int) -> NDArray[np.int64]:
    return Permutation(size, key(seed, "test"))(np.arange(size, dtype=np.int64))


@given(size=st.integers(1, 5000), seed=st.integers(0, 2**64))
@settings(max_examples=100, deadline=None)
def test_a_permutation_visits_every_position_once(size: int, seed: int) -> None:
    assert (np.sort(permuted(size, seed)) == np.arange(size)).all()


@pytest.mark.parametrize("size", [*range(1, 20), 63, 64, 65, 255, 256, 257, 4095, 4096, 4097])
def test_it_does_so_around_the_powers_of_two(size: int) -> None:
    assert (np.sort(permuted(size, 1)) == np.arange(size)).all()


def test_one_element_of_a_billion_costs_no_more_than_itself() -> None:
    permutation = Permutation(1_000_000_007, 5)
    positions = np.array([0, 1, 1_000_000_006], dtype=np.int64)
    found = permutation(positions)
    assert ((found >= 0) & (found < 1_000_000_007)).all()
    assert len(set(found.tolist())) == 3
    assert (permutation(positions[::-1]) == found[::-1]).all()


@pytest.mark.parametrize("position", [-1, 7, 1 << 40])
def test_a_position_outside_is_refused_instead_of_walked_for_ever(position: int) -> None:
    with pytest.raises(IndexError, match=r"between 0 and 6"):
        Permutation(7, 1)(np.array([position], dtype=np.int64))


@cache
def many_permutations(size: int) -> NDArray[np.int64]:
    return np.stack([permuted(size, seed) for seed in range(TRIALS)])


@pytest.mark.parametrize("size", [2, 6, 20])
def test_every_value_is_as_likely_at_every_position(size: int) -> None:
    for column in many_permutations(size).T:
        observed = np.bincount(column, minlength=size)
        chi2 = ((observed - TRIALS / size) ** 2 / (TRIALS / size)).sum()
        # mean size - 1, standard deviation sqrt(2 (size - 1)); five of those, fixed seed
        assert chi2 < size - 1 + 5 * np.sqrt(2 * (size - 1)) + 5


@pytest.mark.parametrize("size", [6, 20])
def test_positions_are_no_more_correlated_than_a_shuffle_makes_them(size: int) -> None:
    matrix = np.asarray(np.corrcoef(many_permutations(size).T))
    found = matrix[np.triu_indices(size, 1)]
    expected = -1 / (size - 1)  # they exclude one another
    assert np.abs(found - expected).max() < 5 / np.sqrt(TRIALS)


def test_a_pair_of_positions_takes_every_pair_of_values() -> None:
    size = 6
    both = many_permutations(size)[:, :2]
    counts = np.zeros((size, size), np.int64)
    np.add.at(counts, (both[:, 0], both[:, 1]), 1)
    off = counts[~np.eye(size, dtype=np.bool_)]
    expected = TRIALS / (size * (size - 1))
    assert ((off - expected) ** 2 / expected).sum() < 29 + 5 * np.sqrt(2 * 29)


def test_keys_and_draws_differ_by_each_of_their_parts() -> None:
    assert len({key(0, "a"), key(1, "a"), key(0, "b"), key("0", "a"), key(0, "a", 0)}) == 5
    assert key(3, "order", 1) == key(3, "order", 1)
    values = np.arange(10_000, dtype=np.int64)
    assert len(np.unique(hash64(values, 1))) == len(values)
    drawn = uniform(values, key(0, "x"))
    assert 0 <= drawn.min() < 0.001
    assert 0.999 < drawn.max() < 1
    assert abs(drawn.mean() - 0.5) < 0.01
    assert abs(np.mean((drawn - 0.5) * (uniform(values, key(1, "x")) - 0.5))) < 0.005


def order(**changes: object) -> Order:
    values: dict[str, object] = {"size": 103, "samples_per_step": 10, "seed": 0, "fingerprint": "f"}
    return Order(**values | changes)  # type: ignore[arg-type]


def epoch_rows(schedule: Order, epoch: int) -> NDArray[np.int64]:
    first = epoch * schedule.steps_per_epoch
    return np.concatenate(
        [schedule.rows(step) for step in range(first, first + schedule.steps_per_epoch)]
    )


def test_the_steps_of_an_epoch_share_no_row_and_leave_out_others_each_time() -> None:
    schedule = order()
    assert schedule.steps_per_epoch == 10
    left_out = set()
    for epoch in range(5):
        rows = epoch_rows(schedule, epoch)
        assert len(set(rows.tolist())) == 100
        assert rows.min() >= 0
        assert rows.max() < 103
        left_out.add(tuple(sorted(set(range(103)) - set(rows.tolist()))))
    assert len(left_out) == 5


def test_a_step_is_a_pure_function_of_its_arguments() -> None:
    forward = [order().rows(step).tolist() for step in range(30)]
    backward = [order().rows(step).tolist() for step in reversed(range(30))]
    assert forward == backward[::-1]


@pytest.mark.parametrize("change", [{"seed": 1}, {"fingerprint": "g"}])
def test_another_seed_or_data_set_has_another_order(change: dict[str, object]) -> None:
    assert order(**change).rows(0).tolist() != order().rows(0).tolist()


def test_each_epoch_has_an_order_of_its_own() -> None:
    assert (epoch_rows(order(), 0) != epoch_rows(order(), 1)).any()


def test_the_order_of_samples_does_not_depend_on_how_large_a_step_is() -> None:
    large = order(samples_per_step=20)
    small = np.concatenate([order().rows(0), order().rows(1)])
    assert (large.rows(0) == small).all()


def test_epochs_count_from_one() -> None:
    assert [order().epoch_of(step) for step in (0, 9, 10, 25)] == [1, 1, 2, 3]


@pytest.mark.parametrize("span", [(0, 0), (3, 4), (0, 10), (5, 15), (0, 25)])
def test_the_rows_between_two_steps_are_those_they_visit(span: tuple[int, int]) -> None:
    visited = {int(row) for step in range(*span) for row in order().rows(step)}
    assert order().rows_between(*span).tolist() == sorted(visited)


def test_without_shuffling_rows_come_as_they_lie_in_every_epoch() -> None:
    order = Order(size=23, samples_per_step=5, seed=1, fingerprint="f", shuffle=False)
    for epoch in (0, 1):
        rows = [order.rows(epoch * 4 + batch) for batch in range(4)]
        assert np.concatenate(rows).tolist() == list(range(20))
    assert order.rows_between(1, 3).tolist() == list(range(5, 15))
    shuffled = Order(size=23, samples_per_step=5, seed=1, fingerprint="f")
    assert shuffled.rows(0).tolist() != list(range(5))
