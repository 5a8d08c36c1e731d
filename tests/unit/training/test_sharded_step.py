"""A step by shards has the gradient of the whole step, but for rounding."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.kit.small_training import IDENTITY, MLP, SAMPLES, World as Small, open_small

from ttf.config.loss_schema import NegativesConfig
from ttf.data.dataset import Dataset
from ttf.data.loader import MicroBatch, StepHead
from ttf.training.loss.whole_bank import FullBank
from ttf.training.sharded_step import ShardedGradients
from ttf.world.world import World

SHARDS = 8
CASES: dict[str, dict[str, Any]] = {
    "stored documents": {},
    "trained documents": {"doc": MLP},
    "grad_cache": {"grad_cache": True, "loss": {"learn_temperature": True}},
    "grad_cache, trained documents": {"grad_cache": True, "doc": MLP},
    "symmetric": {"grad_cache": True, "loss": {"symmetric": True}},
    "learned temperature": {"loss": {"learn_temperature": True}},
}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dataset]:
    with open_small(tmp_path_factory.mktemp("shards")) as opened:
        yield opened


def made_with(data: Dataset, micro_batch: int, **settings: Any) -> Small:
    return Small(data, micro_batch=micro_batch, **{"query": MLP, "doc": IDENTITY, **settings})


def micros_of(made: Small, head: StepHead) -> list[MicroBatch]:
    size = made.micro_batch
    return [
        MicroBatch(
            start=at, stop=at + size, queries=made.data.train.batch(head.rows[at : at + size])
        )
        for at in range(0, SAMPLES, size)
    ]


def sharded(made: Small) -> ShardedGradients:
    def read(head: StepHead, start: int, stop: int) -> MicroBatch:
        raise AssertionError("a single process reads no other's samples")

    return ShardedGradients(made.stepper.gradients, World(SHARDS), read)


def gradient(made: Small) -> torch.Tensor:
    found = [p.grad for p in made.model.parameters() if p.requires_grad]
    return torch.cat([grad.reshape(-1) for grad in found if grad is not None]).double()


def compared(whole: Small, cut: Small) -> None:
    for made in (whole, cut):
        made.model.train()
    head = whole.head(3)
    one = whole.stepper.gradients(head, iter(micros_of(whole, head)))
    other = sharded(cut)(head, iter(micros_of(cut, head)))
    assert torch.allclose(one.losses_S, other.losses_S, rtol=1e-5, atol=1e-6)
    assert torch.allclose(one.docs_KD, other.docs_KD, rtol=1e-5, atol=1e-6)
    assert {**one.extra} == pytest.approx({**other.extra})
    difference = (gradient(whole) - gradient(cut)).norm() / gradient(whole).norm()
    assert difference < 2e-6


@pytest.mark.parametrize("case", CASES)
def test_the_gradient_is_that_of_the_whole_step(data: Dataset, case: str) -> None:
    settings = CASES[case]
    compared(made_with(data, 32, **settings), made_with(data, 4, **settings))


@pytest.mark.parametrize("grad_cache", [False, True])
def test_so_it_is_against_the_whole_bank(data: Dataset, grad_cache: bool) -> None:
    both = [
        made_with(data, size, memory_bank=0, mined=0, grad_cache=grad_cache) for size in (32, 4)
    ]
    for made in both:
        bank = FullBank(made.documents, NegativesConfig(), (1, 10))
        object.__setattr__(made.stepper.gradients, "full_bank", bank)
    compared(*both)


def test_the_cut_into_micro_batches_inside_a_shard_changes_rounding_only(
    data: Dataset, tmp_path: Path
) -> None:
    compared(made_with(data, 32), made_with(data, 2))
