"""The optimizer's step for the rows that a batch has touched; their state lies beside the values."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Final, Protocol

import torch

from ttf.data.embedding.records import Layout
from ttf.errors import ConfigError, suggestion


class RowOptimizer(Protocol):
    lr: float

    def state_words(self, dim: int) -> int: ...

    def step(self, layout: Layout, records: torch.Tensor, gradients: torch.Tensor) -> None:
        """Changes the records in place; `layout.steps` counts this step already."""


@dataclass(kw_only=True)
class Sgd:
    lr: float = 0.05
    name: ClassVar[str] = "sgd"

    def state_words(self, dim: int) -> int:
        return 0

    def step(self, layout: Layout, records: torch.Tensor, gradients: torch.Tensor) -> None:
        layout.values(records).sub_(gradients, alpha=self.lr)


@dataclass(kw_only=True)
class RowwiseAdagrad:
    """One number of state per row: the sum of the mean squared gradients (PyTorch-BigGraph)."""

    lr: float = 0.05
    eps: float = 1e-10
    name: ClassVar[str] = "adagrad"

    def state_words(self, dim: int) -> int:
        return 1

    def step(self, layout: Layout, records: torch.Tensor, gradients: torch.Tensor) -> None:
        sums_N1 = layout.state_of(records)
        sums_N1.add_(gradients.square().mean(dim=1, keepdim=True))
        layout.values(records).sub_(self.lr * gradients / sums_N1.sqrt().add_(self.eps))


@dataclass(kw_only=True)
class LazyAdam:
    """Adam for the rows of a batch alone, each with its own number of steps (as SparseAdam, whose
    number of steps is the table's)."""

    lr: float = 1e-3
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    name: ClassVar[str] = "adam"

    def state_words(self, dim: int) -> int:
        return 2 * dim

    def step(self, layout: Layout, records: torch.Tensor, gradients: torch.Tensor) -> None:
        state = layout.state_of(records)
        first_ND, second_ND = state[:, : layout.dim], state[:, layout.dim :]
        one, two = self.betas
        first_ND.mul_(one).add_(gradients, alpha=1 - one)
        second_ND.mul_(two).addcmul_(gradients, gradients, value=1 - two)
        steps_N1 = layout.steps(records)[:, None].to(torch.float64)
        # In float64: 1 - 0.999**1 has few digits in float32.
        rate_N1 = self.lr * (1 - two**steps_N1).sqrt() / (1 - one**steps_N1)
        eps_N1 = self.eps * (1 - two**steps_N1).sqrt()
        moved = first_ND * rate_N1.to(torch.float32)
        layout.values(records).sub_(moved / second_ND.sqrt().add_(eps_N1.to(torch.float32)))


_ALL: Final = {kind.name: kind for kind in (Sgd, RowwiseAdagrad, LazyAdam)}
OPTIMIZERS: Final = tuple(_ALL)


def optimizer_named(name: str, lr: float | None) -> Sgd | RowwiseAdagrad | LazyAdam:
    if name not in _ALL:
        raise ConfigError(
            f"There is no optimizer {name!r} for an embedding table.{suggestion(name, _ALL)}"
        )
    found = _ALL[name]()
    if lr is not None:
        if not (math.isfinite(lr) and lr > 0):
            raise ConfigError(f"The learning rate must be a number above 0, not {lr}.")
        found.lr = float(lr)
    return found
