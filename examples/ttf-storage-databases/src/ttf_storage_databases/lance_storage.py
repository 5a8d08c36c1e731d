"""The storage `lance`: a table of LanceDB, which is a folder TABLE.lance."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ttf import Availability, BadData, ConfigError, DataMissing, NoOptions, hookimpl

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from ttf import DType, StorageFactory, Store, StoreWriter


class LanceStorage:
    name = "lance"
    options_type: type[Any] = NoOptions
    suffixes: tuple[str, ...] = (".lance",)

    def availability(self) -> Availability:
        if importlib.util.find_spec("lancedb") is not None:
            return Availability(ok=True)
        fix = 'pip install "ttf-storage-databases[lance]"'
        return Availability(ok=False, reason="lancedb is not installed", fix=fix)

    def claims(self, uri: str) -> bool:
        return uri.startswith("lance://") or uri.rstrip("/").endswith(self.suffixes)

    def open(self, uri: str) -> Store:
        from ttf_storage_databases._engine import EngineStore

        return EngineStore(uri, self.name, _Table(uri))

    def create(self, uri: str) -> StoreWriter:
        from ttf_storage_databases._engine import refuse_writing

        raise refuse_writing(uri)


class _Table:
    """Rows in the order of the table, of the version that it had when it was opened."""

    def __init__(self, uri: str) -> None:
        import lancedb

        from ttf_storage_databases._engine import Address, as_ids

        at = Address.parse(uri, "vector", "id") if "://" in uri else None
        folder = Path(at.path if at else uri)
        if not folder.is_dir():
            raise DataMissing(f"{uri}: there is no folder {folder}.", hint="Check the path.")
        try:
            self._table = lancedb.connect(str(folder.parent)).open_table(folder.stem)
            self._table.checkout(self._table.version)  # later writes are not seen
        except (ValueError, RuntimeError, OSError) as error:
            raise BadData(
                f"{uri} is damaged, or no table of LanceDB: {str(error).splitlines()[0][:200]}",
                hint="Name the folder TABLE.lance of a database.",
            ) from error
        options = at.options if at else {}
        self._uri = uri
        self._column = self._vector_column(options.get("vector"))
        rows = self._table.count_rows()
        key = self._id_column(options.get("id"))
        if key is None:
            self.ids: NDArray[Any] = as_ids(range(rows))
        else:
            table = self._table.search().select([key]).limit(max(1, rows)).to_arrow()
            self.ids = as_ids(table[key].to_pylist())

    def fetch(self, rows: NDArray[np.int64]) -> NDArray[Any]:
        import numpy as np

        found = self._table.take_offsets(rows.tolist()).select([self._column]).to_arrow()
        column = found[self._column].combine_chunks()
        if column.null_count or len(column) != len(rows):
            raise BadData(f"{self._uri}: rows without a vector. Leave them out of the table.")
        flat = column.flatten().to_numpy(zero_copy_only=False)
        return np.ascontiguousarray(flat.reshape(len(rows), self.dim))

    def check_unchanged(self) -> None: ...

    def close(self) -> None: ...

    def _vector_column(self, name: str | None) -> str:
        import pyarrow as pa

        known: dict[str, DType] = {"float": "float32", "halffloat": "float16"}
        likely = {
            field.name: field.type
            for field in self._table.schema
            if pa.types.is_fixed_size_list(field.type) and str(field.type.value_type) in known
        }
        if name not in likely and (name is not None or len(likely) != 1):
            raise ConfigError(
                f"{self._uri} has the columns of vectors {', '.join(likely) or '(none)'}.",
                hint="Name one: lance:///FOLDER/TABLE.lance?vector=NAME",
            )
        chosen = name or next(iter(likely))
        self.dim = int(likely[chosen].list_size)
        self.dtype: DType = known[str(likely[chosen].value_type)]
        return chosen

    def _id_column(self, name: str | None) -> str | None:
        names = self._table.schema.names
        if name is not None and name not in names:
            raise ConfigError(f"{self._uri} has no column {name!r}. It has: {', '.join(names)}.")
        return name or next((one for one in ("id", "ids", "_id", "doc_id") if one in names), None)


@hookimpl
def ttf_storage(name: str) -> StorageFactory | None:
    return LanceStorage() if name == LanceStorage.name else None
