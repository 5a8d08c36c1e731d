"""When mps waits and when it empties its cache: its own policy in real steps, with the arithmetic of
the CPU and a stand-in for `torch.mps` that remembers its calls."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from tests.kit.small_training import IDENTITY, LINEAR, MLP, SAMPLES, World, open_small

from ttf.data.dataset import Dataset
from ttf_devices.mps import MpsOptions, MpsPolicy

PARTS = 4


class Metal:
    """Remembers what `torch.mps` was asked for."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def synchronize(self) -> None:
        self.calls.append("wait")

    def empty_cache(self) -> None:
        self.calls.append("empty")

    def get_rng_state(self) -> torch.Tensor:
        return torch.zeros(1)

    def set_rng_state(self, state: torch.Tensor) -> None:
        pass


class OnHost(MpsPolicy):
    """Computes on the CPU; everything else is the policy of mps."""

    def torch_device(self) -> torch.device:
        return torch.device("cpu")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dataset]:
    with open_small(tmp_path_factory.mktemp("world")) as opened:
        yield opened


def stepped(data: Dataset, settings: dict[str, Any], **options: Any) -> tuple[list[str], World]:
    """The calls of one step of four micro-batches, and the world after it."""
    metal = Metal()
    policy = OnHost(MpsOptions(**options), 1, metal)
    made = World(data, micro_batch=SAMPLES // PARTS, **settings)
    made.stepper.gradients = replace(made.stepper.gradients, policy=policy)
    made.run(1)
    return metal.calls, made


@pytest.mark.parametrize(
    "settings",
    [
        {"query": LINEAR, "doc": IDENTITY},
        {"query": LINEAR, "doc": IDENTITY, "grad_cache": True},
        {"query": LINEAR, "doc": MLP, "grad_cache": True},
    ],
    ids=["accumulated", "cached", "cached documents"],
)
@pytest.mark.parametrize(
    ("sync", "empty_cache", "within", "end"),
    [
        ("step", "never", [], ["wait"]),
        ("micro-batch", "never", ["wait"], ["wait"]),
        ("none", "never", [], []),
        ("none", "step", [], ["empty"]),
        ("step", "step", [], ["wait", "empty"]),
        ("micro-batch", "micro-batch", ["wait", "empty"], ["wait", "empty"]),
        ("step", "micro-batch", ["empty"], ["wait", "empty"]),
    ],
)
def test_it_waits_and_empties_its_cache_where_it_is_told_to(
    settings: dict[str, Any],
    sync: str,
    empty_cache: str,
    within: list[str],
    end: list[str],
    data: Dataset,
) -> None:
    calls, _ = stepped(data, settings, sync=sync, empty_cache=empty_cache)
    assert calls == within * PARTS + end


def test_waiting_and_emptying_change_no_number(data: Dataset) -> None:
    settings = {"query": LINEAR, "doc": IDENTITY}
    _, plain = stepped(data, settings, sync="none")
    _, paced = stepped(data, settings, sync="micro-batch", empty_cache="micro-batch")
    for name, value in plain.weights().items():
        assert torch.equal(value, paced.weights()[name]), name


def test_a_device_without_such_options_is_waited_for_after_each_step(data: Dataset) -> None:
    made = World(data, micro_batch=SAMPLES // PARTS)
    waited: list[str] = []
    policy = made.stepper.gradients.policy
    policy.synchronize = lambda: waited.append("wait")  # type: ignore[method-assign]
    made.run(2)
    assert waited == ["wait", "wait"]
