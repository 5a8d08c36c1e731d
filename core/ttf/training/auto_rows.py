"""What a run decides by itself if its towers train rows of a table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ttf.config.schema import TowersConfig
from ttf.data.dataset import Dataset
from ttf.data.items import Items
from ttf.training.auto_choices import choose_tower
from ttf.training.auto_device_options import AUTO

KEPT_ONCE: Final = "the rows of a table are kept once, as they are at the end"


def chosen_towers(towers: TowersConfig, data: Dataset) -> Iterator[tuple[str, str, str]]:
    """(side, name, reason) of towers that are not asked for. Items have no vectors, so that no other
    tower is possible."""
    if isinstance(data.bank, Items):
        for side, tower in (("query", towers.query), ("doc", towers.doc)):
            if tower.name in (AUTO, "identity"):
                yield side, "embedding", "items have no vectors"
    elif towers.query.name == AUTO:
        yield "query", *choose_tower(data)
