"""What `miner.queries = "reuse"` keeps on the disk."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from ttf.training.plan._model import Choices, DataFacts, Item

if TYPE_CHECKING:
    from ttf.config.schema import RunConfig

_FLOAT: Final = 4
# The epoch of the oldest checkpoint, the one before it, and the current one.
_MOST_EPOCHS: Final = 3


def kept_queries(config: RunConfig, facts: DataFacts, choices: Choices) -> Iterator[Item]:
    """The vectors that training computed; the last epoch's are not kept."""
    epochs = min(_MOST_EPOCHS, choices.refreshes - 1)
    if config.miner.keeps_queries and epochs > 0:
        yield Item(
            component="query vectors of training",
            phase="training",
            disk_bytes=epochs * facts.train_pairs * facts.doc_dim * _FLOAT,
            why=f"{epochs} epoch(s) x {facts.train_pairs:,} x {facts.doc_dim} x 4 B",
        )
