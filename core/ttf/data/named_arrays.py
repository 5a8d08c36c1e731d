"""Arrays of a container under the names a user gave them, each checked before it is used.

Every problem names the file, the array and the row.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ttf.contracts import Store, VectorSource
from ttf.data.dataset import Queries
from ttf.data.vectors import FLOATS
from ttf.errors import ArrayMissing, BadData


class NamedArrays:
    """A store seen through the `[data.names]` mapping."""

    def __init__(self, store: Store, names: dict[str, str]) -> None:
        self.store = store
        self.uri = store.uri
        self._names = names
        self._present = set(store.names())

    def __contains__(self, name: str) -> bool:
        return self._names.get(name, name) in self._present

    def __getitem__(self, name: str) -> VectorSource:
        return self.store.source(self._names.get(name, name))

    def said(self, name: str) -> str:
        """The name as a message should have it, with what the user mapped it to."""
        mapped = self._names.get(name, name)
        return name if mapped == name else f"{name} (mapped to {mapped!r})"


def vectors_of(store: Store, names: dict[str, str]) -> VectorSource:
    source = store.source(names.get("vectors", "vectors"))
    need_floats(source, (2,), "(rows, dim)")
    return source


def need_floats(source: VectorSource, ranks: tuple[int, ...], shape: str) -> None:
    if source.dtype not in FLOATS:
        raise BadData(
            f"{source.name} in {source.uri} is {source.dtype}; vectors must be float32, "
            "float16 or bfloat16.",
            hint=f"Convert it: ttf data convert {source.uri} OUT --dtype f32",
        )
    if len(source.shape) not in ranks or 0 in source.shape:
        raise BadData(
            f"{source.name} in {source.uri} has shape {source.shape}, expected {shape}, not empty."
        )


def queries_of(pairs: NamedArrays, split: str, context: Callable[[], VectorSource]) -> Queries:
    x, seq = f"X_{split}", f"seq_{split}"
    if x in pairs and seq in pairs:
        raise BadData(
            f"{pairs.uri} has both {x} and {seq}; it must have one of them.",
            hint="Name the one you want, e.g. --set data.names.seq_train=none",
        )
    if x not in pairs and seq not in pairs:
        raise ArrayMissing(
            f"{pairs.uri} has neither {pairs.said(x)} nor {pairs.said(seq)}; it has: "
            f"{', '.join(pairs.store.names()) or 'nothing'}.",
            hint=f"Map your names, e.g. --set data.names.{x}=queries",
        )
    source = pairs[x] if x in pairs else pairs[seq]
    if x in pairs:
        need_floats(source, (2, 3), "(N, D) or (N, L, D)")
    elif source.dtype not in ("int32", "int64") or len(source.shape) != 2 or 0 in source.shape:
        raise BadData(
            f"{seq} in {pairs.uri} is {source.dtype} {source.shape}; it must be int32 or int64 "
            "of shape (N, L): rows of the context, -1 for padding."
        )
    return Queries(source, None if x in pairs else context(), _lengths(pairs, split, source))


def _lengths(pairs: NamedArrays, split: str, source: VectorSource) -> NDArray[np.int64] | None:
    name = f"len_{split}"
    if name not in pairs:
        return None
    array = pairs[name]
    if array.dtype not in ("int32", "int64") or array.shape != source.shape[:1]:
        raise BadData(
            f"{name} in {pairs.uri} is {array.dtype} {array.shape}; it must be int32 or int64 of "
            f"shape ({source.shape[0]},), like {source.name}."
        )
    lengths = np.array(array.read(0, array.shape[0]), dtype=np.int64)
    plain = source.dtype in FLOATS and len(source.shape) == 2  # (N, D): one vector a query
    longest = 1 if plain else source.shape[1]
    wrong = np.flatnonzero((lengths < 1) | (lengths > longest))
    if wrong.size:
        raise BadData(
            f"{array.name}[{wrong[0]}] = {lengths[wrong[0]]} in {pairs.uri}, but a sequence of "
            f"{source.name} has 1 to {longest} steps ({wrong.size:,} such values in all)."
        )
    return lengths
