"""`loss.negatives = "bank"` in a configuration: what it settles, what it refuses, a whole run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.kit.small_training import open_small

from ttf.config.resolve import resolve
from ttf.data.dataset import Dataset
from ttf.errors import ConfigError
from ttf.machine.devices import choose
from ttf.training.auto_settings import Decided, decide


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dataset]:
    with open_small(tmp_path_factory.mktemp("whole")) as opened:
        yield opened


def decided(data: Dataset, **flags: Any) -> Decided:
    also = {name.replace("__", "."): value for name, value in flags.items()}
    given = {"tower": "linear", "memory.budget": "1GiB", "loss.negatives": "bank", **also}
    resolved = resolve(flags=given)
    return decide(resolved, data, choose("cpu", {}, 1))


def test_neither_miner_nor_memory_bank_is_needed_and_the_reason_is_kept(data: Dataset) -> None:
    found = decided(data)
    assert (found.config.miner.negatives, found.config.loss.memory_bank) == (0, 0)
    for key in ("miner.negatives", "loss.memory_bank"):
        assert "all documents are already negatives" in found.resolved.origins[key]
    assert found.notes == ()


def test_those_that_were_asked_for_are_told_to_be_of_no_use(data: Dataset) -> None:
    found = decided(data, miner__negatives=3, loss__memory_bank=20)
    assert (found.config.miner.negatives, found.config.loss.memory_bank) == (0, 0)
    assert [note.split(" (")[0] for note in found.notes] == [
        "miner.negatives = 3",
        "loss.memory_bank = 20",
    ]
    assert decided(data, miner__negatives=0, loss__memory_bank=0).notes == ()


def test_graphs_are_kept_where_the_budget_holds_them_and_made_twice_where_not(
    data: Dataset,
) -> None:
    cut = {"batch_size": 4, "accum": 4, "train.fuse": 1}
    kept = decided(data, **cut)
    assert kept.config.train.grad_cache is False
    assert "fits in memory.budget" in kept.resolved.origins["train.grad_cache"]
    twice = decided(data, **cut, memory__budget=1024)
    assert twice.config.train.grad_cache is True
    assert "more than half of memory.budget" in twice.resolved.origins["train.grad_cache"]
    assert decided(data, **cut, train__grad_cache=True).config.train.grad_cache is True


def test_documents_that_train_are_refused(data: Dataset) -> None:
    with pytest.raises(ConfigError, match="without trainable weights.*'linear' is trained"):
        decided(data, doc_tower="linear")


def test_the_symmetric_loss_is_refused(data: Dataset) -> None:
    with pytest.raises(ConfigError, match="cannot be used together"):
        decided(data, loss__symmetric=True)
