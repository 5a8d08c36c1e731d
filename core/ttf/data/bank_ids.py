"""The user's own ids of the documents: whole numbers or strings, one per row, each once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ttf.contracts import Store
from ttf.data.named_arrays import NamedArrays
from ttf.data.text_arrays import Text, columns_left_out, stored_kind, text_of
from ttf.errors import BadData

Ids = NDArray[np.int64] | Text


def bank_ids(arrays: NamedArrays, rows: int, say: Callable[[str], None]) -> Ids | None:
    """None if the bank has no ids that can be read. Raises BadData if they do not fit it."""
    name = arrays.stored_name("ids")
    if "ids" not in arrays and not _is_text_column(arrays.store, name):
        if why := _why_none(arrays, name):
            say(f"{why} Searches show row numbers.")
        return None
    if stored_kind(arrays.store, name) == "O":
        say(
            f"ids in {arrays.uri} are pickled Python objects, which ttf does not load: searches show "
            "row numbers. Strings can be saved as text: ids=numpy.asarray(ids, dtype=str)."
        )
        return None
    ids = text_of(arrays.store, name)
    found = _numbers(arrays, rows) if ids is None else ids
    if found.shape != (rows,):
        raise BadData(
            f"ids in {arrays.uri} has the shape {found.shape}. It must have the shape ({rows},): "
            "one id per vector."
        )
    _require_distinct(found, arrays.uri)
    return found


def _is_text_column(store: Store, name: str) -> bool:
    """Texts may be gigabytes: a store of tables lists them apart from its arrays."""
    return name in columns_left_out(store) and stored_kind(store, name) in ("U", "S")


def _why_none(arrays: NamedArrays, name: str) -> str:
    """Of ids that the user has, or has named, and that are not read; empty if there are none."""
    if name in columns_left_out(arrays.store):
        kind = arrays.store.describe(name)["dtype"]
        return (
            f"{arrays.said('ids')} in {arrays.uri} is a column of the type {kind}, and ids are whole "
            "numbers or texts."
        )
    return "" if name == "ids" else f"{arrays.uri} has no array {name!r} (data.names.ids)."


def _numbers(arrays: NamedArrays, rows: int) -> NDArray[np.int64]:
    source = arrays["ids"]
    if source.dtype not in ("int32", "int64") or source.shape != (rows,):
        raise BadData(
            f"ids in {arrays.uri} has the type {source.dtype} and the shape {source.shape}. It "
            f"must be whole numbers or strings with the shape ({rows},): one id per vector."
        )
    return np.array(source.read(0, rows), dtype=np.int64)


def _require_distinct(ids: Ids, uri: str) -> None:
    values, counts = np.unique(ids, return_counts=True)
    if len(values) != len(ids):
        twice = values[counts > 1][0]
        first, second = np.flatnonzero(ids == twice)[:2]
        raise BadData(
            f"ids in {uri} contains duplicates: {twice} is the id of rows {first} and "
            f"{second} ({len(ids) - len(values):,} duplicates in total).",
            hint="Give each document its own id.",
        )
