"""Arrays of strings, such as the `ids` of a bank: read and written whole.

Optional for stores: one that holds no strings simply lacks these methods.
"""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ttf.contracts import Store, StoreWriter

Text = NDArray[np.str_]


@runtime_checkable
class HoldsText(Protocol):
    """A store that may hold arrays of strings."""

    def text(self, name: str) -> Text:
        """The strings of an array of one dimension. Raises ArrayMissing or a BadData subclass."""
        ...


@runtime_checkable
class WritesText(Protocol):
    """A writer that takes arrays of strings."""

    def text_array(self, name: str, values: Text) -> None:
        """Writes a whole array of one dimension, between two other arrays."""
        ...


def columns_left_out(store: Store) -> list[str]:
    """Columns of a table that are no arrays: long texts, dates, bytes. Optional for stores."""
    return list(getattr(store, "left_out", ()))


def column_type(store: Store, name: str) -> str:
    """Of a column that is left out, for messages."""
    return "text" if stored_kind(store, name) == "U" else str(store.describe(name)["dtype"])


def stored_kind(store: Store, name: str) -> str:
    """numpy's letter for the type that an array has in its container: "U" and "S" are strings, "O"
    is a pickle, "" is unknown to numpy."""
    try:
        return str(np.dtype(store.describe(name)["dtype"]).kind)
    except TypeError:
        return ""


def text_of(store: Store, name: str) -> Text | None:
    """The strings of an array; None if it holds no strings that the store can read."""
    if isinstance(store, HoldsText) and stored_kind(store, name) in ("U", "S"):
        return store.text(name)
    return None


def put_text(writer: StoreWriter | Any, name: str, values: Text) -> bool:
    """False if this kind of container cannot hold strings."""
    if not isinstance(writer, WritesText):
        return False
    writer.text_array(name, values)
    return True
