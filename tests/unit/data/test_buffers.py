"""Memory is used again when nobody holds it, and never before."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from numpy.typing import NDArray
from tests.kit.data_files import config

from ttf.contracts import DType
from ttf.data.dataset import Queries
from ttf.data.loader import Loader, MicroBatch, StepHead, head_of
from ttf.data.open_dataset import open_dataset
from ttf.data.order import Order
from ttf.data.vectors import Buffers, from_float32, to_float32
from ttf.host.plugins import open_store

LARGE = (64, 2048)


def address(array: NDArray[Any]) -> int:
    return int(array.__array_interface__["data"][0])


def test_memory_nobody_holds_is_used_again() -> None:
    buffers = Buffers()
    first = address(buffers.rows(LARGE))
    assert address(buffers.rows(LARGE)) == first


@pytest.mark.parametrize(
    "alias",
    [
        lambda a: a,
        lambda a: a[3:],
        lambda a: a.reshape(-1)[5:9].view(np.uint8),
        lambda a: torch.from_numpy(a),
        lambda a: torch.from_numpy(a)[2:].view(-1),
        lambda a: torch.from_numpy(a.reshape(8, -1)),
        lambda a: memoryview(a),
        lambda a: torch.from_numpy(a).requires_grad_().sum().grad_fn,
    ],
)
def test_memory_is_not_used_again_while_anything_made_of_it_lives(
    alias: Callable[[Any], Any],
) -> None:
    buffers = Buffers()
    array = buffers.rows(LARGE)
    array[...] = 1
    kept = alias(array)
    where = address(array)
    del array
    others = [buffers.rows(LARGE) for _ in range(3)]
    if "Backward" not in type(kept).__name__:
        assert where not in {address(other) for other in others}
    del kept
    others.append(buffers.rows(LARGE))
    assert len({address(other) for other in others}) == 4


@settings(max_examples=40, deadline=None, derandomize=True, database=None)
@given(st.lists(st.tuples(st.integers(0, 5), st.sampled_from([64, 96])), max_size=40))
def test_arrays_that_are_alive_at_once_never_share_memory(
    asked: list[tuple[int, int]],
) -> None:
    buffers = Buffers()
    alive: dict[int, NDArray[Any]] = {}
    for slot, rows in asked:
        alive.pop(slot, None)
        alive[slot] = buffers.rows((rows, 2048))
        alive[slot][...] = slot
        for number, array in alive.items():
            assert (array == number).all()


def test_small_arrays_are_ordinary_ones() -> None:
    assert Buffers().rows((3, 4), "bfloat16").dtype == np.uint16


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_widening_into_given_rows_is_the_same_as_widening(dtype: DType) -> None:
    values = np.random.default_rng(0).standard_normal((5, 7)).astype(np.float32)
    values[0, :3] = [np.nan, -0.0, np.inf]
    stored = from_float32(values, dtype)
    out = np.full((5, 7), 9, np.float32)
    assert to_float32(stored, dtype, out) is out
    np.testing.assert_array_equal(out.view(np.uint32), to_float32(stored, dtype).view(np.uint32))


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_a_batch_from_buffers_is_the_same_batch(tmp_path: Path, dtype: DType) -> None:
    values = np.random.default_rng(0).standard_normal((20, 16, 512)).astype(np.float32)
    rows = from_float32(values, dtype)
    marker = {"X.dtype": np.array("bfloat16")} if dtype == "bfloat16" else {}
    np.savez(tmp_path / "x.npz", X=rows, **marker)  # type: ignore[arg-type]
    store, buffers = open_store(str(tmp_path / "x.npz")), Buffers()
    lengths = np.arange(20) % 16 + 1
    queries = Queries(store.source("X"), None, lengths)
    for start in range(6):
        ids = np.arange(start, start + 12)
        found = queries.batch(ids, buffers)
        np.testing.assert_array_equal(found.x, queries.batch(ids).x)
    store.close()


def test_all_micro_batches_of_two_steps_can_be_kept(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((64, 10, 1024)).astype(np.float32)
    y = rng.standard_normal((64, 1024)).astype(np.float32)
    arrays = {"X_train": x, "Y_train": y, "X_val": x[:4], "Y_val": y[:4]}
    bank = {"vectors": y}
    order = Order(size=64, samples_per_step=32, seed=0, fingerprint="x")
    with open_dataset(config(tmp_path, arrays, bank)) as data:

        def head(step: int) -> StepHead:
            return head_of(step, data.train, order, data.bank.gather, None)

        kept: list[tuple[StepHead, MicroBatch]] = []
        with Loader(head, data.train, 8, 0, 2, order.rows) as loader:
            for each, micros in loader:
                kept += [(each, micro) for micro in micros]
        assert len(kept) == 8
        for each, micro in kept:
            np.testing.assert_array_equal(micro.queries.x, x[each.rows[micro.start : micro.stop]])
