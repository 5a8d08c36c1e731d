"""What the three storages share: a table of ids and vectors, fetched by row number."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol
from urllib.parse import parse_qs, unquote, urlsplit

import numpy as np
from numpy.typing import NDArray
from ttf import (
    ArrayMissing,
    ConfigError,
    DType,
    checked_ids,
    checked_out,
    checked_span,
    numpy_dtype,
    suggestion,
)

AT_ONCE: Final = 2048
_SAMPLED: Final = 64


class Engine(Protocol):
    """An open table. `ids`: of all rows, in a fixed order; whole numbers or strings."""

    ids: NDArray[Any]
    dim: int
    dtype: DType

    def fetch(self, rows: NDArray[np.int64]) -> NDArray[Any]:
        """Vectors of at most AT_ONCE distinct, ascending rows."""

    def check_unchanged(self) -> None: ...
    def close(self) -> None: ...


@dataclass(frozen=True)
class Address:
    """The parts of NAME://[USER@]HOST:PORT/PATH?OPTIONS#TABLE."""

    host: str
    user: str
    port: int | None
    path: str
    options: Mapping[str, str]
    table: str

    @classmethod
    def parse(cls, uri: str, *known: str) -> Address:
        parts = urlsplit(uri)
        if parts.password:
            raise ConfigError(
                f"{parts.scheme}://...@{parts.hostname}: a password does not belong into a URI, "
                "which is written into documents of ttf.",
                hint="Use an environment variable: PGPASSWORD, QDRANT_API_KEY.",
            )
        options = {key: values[-1] for key, values in parse_qs(parts.query).items()}
        for key in options:
            if key not in known:
                raise ConfigError(f"{uri}: there is no option {key!r}.{suggestion(key, known)}")
        host, user = parts.hostname or "", parts.username or ""
        return cls(host, user, parts.port, unquote(parts.path), options, unquote(parts.fragment))


class EngineStore:
    """`ttf.Store` with the arrays `vectors` and `ids`; only read."""

    def __init__(self, uri: str, container: str, engine: Engine) -> None:
        self.uri, self.container = uri, container
        self._engine = engine
        self._lock = threading.Lock()

    def names(self) -> list[str]:
        return ["vectors", "ids"]

    def source(self, name: str) -> EngineRows:
        if name == "vectors":
            shape = len(self._engine.ids), self._engine.dim
            return EngineRows(name, self.uri, shape, self._engine.dtype, self)
        if name == "ids" and self._engine.ids.dtype.kind == "i":
            return EngineRows(name, self.uri, self._engine.ids.shape, "int64", self)
        raise ArrayMissing(
            f"{self.uri}: there is no array {name!r}.{suggestion(name, self.names())}"
        )

    def text(self, name: str) -> NDArray[np.str_]:
        if name != "ids" or self._engine.ids.dtype.kind != "U":
            raise ArrayMissing(f"{self.uri}: there is no array of strings {name!r}.")
        return self._engine.ids

    def describe(self, name: str) -> Mapping[str, Any]:
        ids = self._engine.ids
        facts = {"stored": "database", "mappable": False, "aligned": False, "problem": None}
        if name == "ids":
            return facts | {"shape": [len(ids)], "dtype": str(ids.dtype), "bytes": ids.nbytes}
        source = self.source(name)
        size = len(ids) * self._engine.dim * numpy_dtype(source.dtype).itemsize
        return facts | {"shape": list(source.shape), "dtype": source.dtype, "bytes": size}

    def check_unchanged(self) -> None:
        with self._lock:
            self._engine.check_unchanged()

    def verify(self) -> Iterator[str]:
        for start in range(0, len(self._engine.ids), AT_ONCE):
            self.rows("vectors", np.arange(start, min(start + AT_ONCE, len(self._engine.ids))))
        return iter(())

    def close(self) -> None:
        with self._lock:
            self._engine.close()

    def rows(self, name: str, rows: NDArray[np.int64]) -> NDArray[Any]:
        if name == "ids":
            found: NDArray[Any] = self._engine.ids[rows]
            return found
        distinct, back = np.unique(rows, return_inverse=True)
        parts = []
        with self._lock:  # clients serve one thread at a time
            for start in range(0, len(distinct), AT_ONCE):
                parts.append(self._engine.fetch(distinct[start : start + AT_ONCE]))
        empty = np.empty((0, self._engine.dim), numpy_dtype(self._engine.dtype))
        result: NDArray[Any] = np.concatenate(parts or [empty])[back]
        return result


class EngineRows:
    """`ttf.VectorSource`."""

    def __init__(
        self, name: str, uri: str, shape: tuple[int, ...], dtype: DType, store: EngineStore
    ) -> None:
        self.name, self.uri, self.shape = name, uri, shape
        self.dtype: DType = dtype
        self._store = store

    @property
    def slow_rows(self) -> str:
        return f"{self.uri} is a database, which is asked for every row."

    def gather(self, ids: NDArray[np.int64], out: NDArray[Any] | None = None) -> NDArray[Any]:
        rows = checked_ids(ids, self.shape[0], self.name)
        into = checked_out(out, (len(rows), *self.shape[1:]), self.dtype, self.name)
        into[...] = self._store.rows(self.name, rows)
        return into

    def read(self, start: int, stop: int, out: NDArray[Any] | None = None) -> NDArray[Any]:
        checked_span(start, stop, self.shape[0], self.name)
        return self.gather(np.arange(start, stop), out)

    def fingerprint(self) -> str:
        """Of all ids and of some vectors."""
        rows = np.unique(np.linspace(0, max(0, self.shape[0] - 1), _SAMPLED).astype(np.int64))
        digest = hashlib.blake2b(repr((self.name, self.shape, self.dtype)).encode(), digest_size=16)
        digest.update(self._store.rows("ids", np.arange(self.shape[0])).tobytes())
        if self.shape[0]:
            digest.update(self._store.rows(self.name, rows).tobytes())
        return digest.hexdigest()


def as_ids(values: Sequence[Any]) -> NDArray[Any]:
    """Whole numbers stay numbers; everything else becomes text."""
    if all(isinstance(value, int) and -(2**63) <= value < 2**63 for value in values):
        return np.array(values, np.int64)
    return np.array([str(value) for value in values], dtype=str)


def refuse_writing(uri: str) -> ConfigError:
    return ConfigError(f"{uri} is only read.", hint="Choose an output that ends in .npz.")
