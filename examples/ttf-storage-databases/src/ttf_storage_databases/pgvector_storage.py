"""The storage `pgvector`: a column of vectors in PostgreSQL, read in one snapshot."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any

from ttf import (
    Availability,
    BadData,
    ConfigError,
    DataMissing,
    NoOptions,
    StorageError,
    hookimpl,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from ttf import DType, StorageFactory, Store, StoreWriter


class PgvectorStorage:
    name = "pgvector"
    options_type: type[Any] = NoOptions
    suffixes: tuple[str, ...] = ()

    def availability(self) -> Availability:
        missing = [m for m in ("psycopg", "pgvector") if importlib.util.find_spec(m) is None]
        if not missing:
            return Availability(ok=True)
        fix = 'pip install "ttf-storage-databases[pgvector]"'
        return Availability(ok=False, reason=f"{missing[0]} is not installed", fix=fix)

    def claims(self, uri: str) -> bool:
        return uri.startswith("pgvector://")

    def open(self, uri: str) -> Store:
        from ttf_storage_databases._engine import EngineStore

        return EngineStore(uri, self.name, _Column(uri))

    def create(self, uri: str) -> StoreWriter:
        from ttf_storage_databases._engine import refuse_writing

        raise refuse_writing(uri)


class _Column:
    """Rows in the order of their ids. One transaction sees one state of the table."""

    def __init__(self, uri: str) -> None:
        import psycopg
        from psycopg import IsolationLevel, sql

        from ttf_storage_databases._engine import Address, as_ids

        at = Address.parse(uri, "id", "host")
        *schema, table, column = ["", *at.table.split(".")] if "." in at.table else ["", ""]
        if not table or not column:
            raise ConfigError(
                f"{uri} names no table and column.",
                hint="pgvector://USER@HOST:PORT/DATABASE#TABLE.COLUMN",
            )
        self._uri, key = uri, at.options.get("id", "id")
        where = {"host": at.options.get("host", at.host), "port": at.port, "user": at.user}
        given = {name: value for name, value in where.items() if value}
        try:
            self._connection = psycopg.connect(dbname=at.path.strip("/") or None, **given)
        except psycopg.OperationalError as error:
            raise StorageError(
                f"{uri}: the server does not answer: {str(error).strip().splitlines()[-1]}",
                hint="Check address and rights; PGPASSWORD or ~/.pgpass has the password.",
            ) from error
        try:
            self._connection.isolation_level = IsolationLevel.REPEATABLE_READ
            self._connection.read_only = True
            _register(self._connection, uri)
            names = [name for name in (*schema, table) if name]
            self._parts = {
                "table": sql.Identifier(*names),
                "key": sql.Identifier(key),
                "column": sql.Identifier(column),
            }
            self._ask = sql.SQL("SELECT {key}, {column} FROM {table} WHERE {key} = ANY(%s)").format(
                **self._parts
            )
            self._own_ids = self._all_ids()
            self.ids: NDArray[Any] = as_ids(self._own_ids)
            self.dim, self.dtype = self._width()
        except psycopg.Error as error:
            self.close()
            raise DataMissing(
                f"{uri}: {str(error).strip().splitlines()[0]}.",
                hint="Check table, column and ?id=NAME.",
            ) from error
        except BaseException:
            self.close()
            raise

    def fetch(self, rows: NDArray[np.int64]) -> NDArray[Any]:
        import numpy as np

        wanted = [self._own_ids[row] for row in rows.tolist()]
        found = dict(self._connection.execute(self._ask, [wanted], binary=True).fetchall())
        out = np.empty((len(wanted), self.dim), "<f2" if self.dtype == "float16" else "<f4")
        for place, one in enumerate(wanted):
            vector = found[one]
            out[place] = vector.to_numpy() if hasattr(vector, "to_numpy") else vector
        return out

    def check_unchanged(self) -> None: ...

    def close(self) -> None:
        self._connection.close()

    def _all_ids(self) -> list[Any]:
        from psycopg import sql

        asked = sql.SQL("SELECT {key}, {column} IS NULL FROM {table} ORDER BY {key}")
        rows = self._connection.execute(asked.format(**self._parts)).fetchall()
        ids = [row[0] for row in rows]
        if len(set(ids)) != len(ids) or None in ids:
            raise BadData(f"{self._uri}: ids occur more than once, or are missing.")
        if missing := [row[0] for row in rows if row[1]]:
            raise BadData(
                f"{self._uri}: {len(missing):,} rows have no vector, for example the id {missing[0]}.",
                hint="Make a view without them: CREATE VIEW ... WHERE embedding IS NOT NULL.",
            )
        return ids

    def _width(self) -> tuple[int, DType]:
        from psycopg import sql

        asked = sql.SQL(
            "SELECT min(vector_dims({column})), max(vector_dims({column})), "
            "max(pg_typeof({column})::text) FROM {table}"
        )
        low, high, kind = self._connection.execute(asked.format(**self._parts)).fetchone() or (
            None,
            None,
            "",
        )
        if low is None or low != high:
            raise BadData(f"{self._uri}: the vectors have from {low} to {high} numbers.")
        return int(low), "float16" if str(kind).endswith("halfvec") else "float32"


def _register(connection: Any, uri: str) -> None:
    import psycopg
    from pgvector.psycopg import register_vector

    try:
        register_vector(connection)
    except psycopg.ProgrammingError as error:
        raise DataMissing(
            f"{uri}: this database has no type `vector`.", hint="CREATE EXTENSION vector;"
        ) from error


@hookimpl
def ttf_storage(name: str) -> StorageFactory | None:
    return PgvectorStorage() if name == PgvectorStorage.name else None
