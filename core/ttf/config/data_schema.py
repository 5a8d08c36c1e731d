"""The keys of [data]: which files a run reads, and how. See `ttf.config.schema`."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import field_validator

from ttf.config.declare import (
    MOST_BYTES,
    Auto,
    Name,
    PathText,
    Section,
    ShareBelowOne,
    key,
    within,
)
from ttf.text.numbers import parse_bytes

MOST_ITEMS: Final = 2**31 - 2


class DataConfig(Section):
    """The files with your vectors."""

    pairs: PathText | None = key(
        None, "file with training and validation pairs; none: the demo data set"
    )
    bank: PathText | None = key(
        None, "file with the documents; none: the distinct rows of Y_train and Y_val"
    )
    items: Annotated[int, within(2, MOST_ITEMS)] | None = key(
        None,
        "number of items whose vectors are trained, in place of a bank: seq_* and pos_* hold item "
        "numbers from 0 (towers `embedding`); none: documents have vectors",
        unit="items",
    )
    item_width: Annotated[int, within(2, 65_536)] = key(
        128, "width of the vectors of items", unit="values"
    )
    context: PathText | None = key(
        None, "file with the vectors that seq_* arrays refer to; none: the bank"
    )
    storage: Name = key(
        "auto", "storage plugin that reads the files; auto: by the file's ending", plugin="storage"
    )
    missing: Literal["refuse", "fill"] = key(
        "refuse",
        "chunks of Zarr that do not exist: refuse, because they may be lost; or fill: read them as "
        "the fill value of the array, because chunks of zeros are often not written",
    )
    cache_limit: Annotated[int, within(1, MOST_BYTES)] | Name = key(
        "auto",
        "space that the shards of all object stores may take on this machine, e.g. '200GB'; shards "
        "that no run uses go first (ttf cache list); auto: all but a twentieth of the disk",
        unit="bytes",
    )
    val_split: ShareBelowOne | Auto = key(
        "auto",
        "share of the training pairs to use for validation if the file has no validation pairs; "
        "pairs of one document stay together, except those of items; auto: 5%, at least 200 and at "
        "most 5000 pairs; 0: none, and the file must have validation pairs",
        unit="share of the training pairs",
    )
    hold_out: ShareBelowOne = key(
        0.0,
        "share of the training pairs on which the run is evaluated instead of the validation pairs, "
        "which are then not read; it does not train on these pairs. ttf tune sets it; 0: none",
        unit="share of the training pairs",
    )
    own_negatives: Annotated[int, within(0, 1000)] = key(
        4,
        "negatives of neg_train (rows of the bank) that are drawn per query and step, beside mined "
        "ones; 0: none",
        unit="documents",
    )
    names: dict[str, Name] = key(
        {}, "array names in your files, e.g. X_train = 'queries'", max_length=100
    )

    @field_validator("cache_limit")
    @classmethod
    def _cache_limit(cls, value: int | str) -> int | str:
        if isinstance(value, str) and value != "auto" and parse_bytes(value) > MOST_BYTES:
            raise ValueError(f"must be at most {MOST_BYTES} bytes")
        return value

    @property
    def cache_limit_bytes(self) -> int | None:
        """None: "auto"."""
        if self.cache_limit == "auto":
            return None
        limit = self.cache_limit
        return parse_bytes(limit) if isinstance(limit, str) else limit
