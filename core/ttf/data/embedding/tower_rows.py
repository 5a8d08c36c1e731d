"""What a tower says if a run shall train rows of a table for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

from ttf.errors import ConfigError
from ttf.rundir.confined import is_plain_name

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, kw_only=True)
class TableRows:
    """The trained rows that a tower wants, one of `TowerShape.out_dim` values for each document or
    item. Towers of both sides that want the same `name` share one table."""

    name: str
    optimizer: Literal["adagrad", "adam", "sgd"]
    lr: float
    """At the peak of the run's schedule; it falls as the run's own."""
    zeros: bool = False
    """New rows are zero, not random."""

    def __post_init__(self) -> None:
        # It is the name of a folder, and may come from a run that was received.
        if not is_plain_name(self.name):
            raise ConfigError(
                f"{self.name!r} cannot be the name of a table: it is the name of a folder of the run.",
                hint="Use letters, digits and underscores.",
            )


@runtime_checkable
class TableTower(Protocol):
    """What a `Tower` has besides if its vectors are rows of a table (`ttf.EmbeddingTable`) that the
    run keeps: in memory or on disk, in its checkpoints, looked up before they are needed."""

    table: TableRows
    rows: Callable[[torch.Tensor], torch.Tensor]
    """Set by the run: from inputs (..., D) to their trained rows (..., out_dim). The last two values
    of an input say which row; before them are the document's own values, or zeros."""
