"""`VectorRef`: a source described in JSON, so that another process can open it anew."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from ttf.errors import BadData, DataMissing
from ttf.host.plugins import open_store

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ttf.contracts import Store, VectorSource


@dataclass(frozen=True)
class VectorRef:
    """Where an array lies, and how it is to be seen: which rows, whether at unit length."""

    uri: str
    array: str
    """A name, or several joined by `+`: stacked one after another."""
    storage: str = "auto"
    rows_path: str | None = None
    """A .npy file of int64 row numbers; None: all rows in order."""
    unit: bool = False

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> VectorRef:
        return cls(**{field.name: values[field.name] for field in dataclasses.fields(cls)})


class OpenRef:
    """An opened reference: `source` to read from, `store` to check, `close` when done."""

    def __init__(self, source: VectorSource, store: Store) -> None:
        self.source = source
        self.store = store

    def close(self) -> None:
        self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def open_ref(ref: VectorRef) -> OpenRef:
    """Opens a reference; use it with `with`, or close it yourself."""
    store = open_store(ref.uri, ref.storage)
    try:
        return OpenRef(_seen_as(ref, _named(store, ref.array)), store)
    except BaseException:
        store.close()
        raise


def _named(store: Store, array: str) -> VectorSource:
    if array in store.names() or "+" not in array:
        return store.source(array)
    from ttf.data.stacked_rows import StackedRows

    return StackedRows([store.source(name) for name in array.split("+")])


def _seen_as(ref: VectorRef, source: VectorSource) -> VectorSource:
    from ttf.data.vectors import RowView, UnitRows

    if ref.rows_path is not None:
        source = RowView(source, _row_numbers(ref.rows_path))
    return UnitRows(source) if ref.unit else source


def _row_numbers(path: str) -> NDArray[np.int64]:
    import numpy as np

    try:
        rows = np.load(path, allow_pickle=False)
    except FileNotFoundError:
        raise DataMissing(f"{path}: the file of row numbers is gone.") from None
    except (ValueError, EOFError) as error:
        raise BadData(f"{path}: the file of row numbers cannot be read: {error}") from None
    if not isinstance(rows, np.ndarray) or rows.dtype != np.int64 or rows.ndim != 1:
        raise BadData(f"{path}: row numbers must be one int64 array of one dimension.")
    return rows
