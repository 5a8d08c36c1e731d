"""The storage `qdrant`: a server, or a local folder of qdrant-client."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ttf import Availability, BadData, ConfigError, DataChanged, DataMissing, NoOptions, hookimpl

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from ttf import DType, StorageFactory, Store, StoreWriter

_PAGE: Final = 4096


class QdrantStorage:
    name = "qdrant"
    options_type: type[Any] = NoOptions
    suffixes: tuple[str, ...] = ()

    def availability(self) -> Availability:
        if importlib.util.find_spec("qdrant_client") is not None:
            return Availability(ok=True)
        fix = 'pip install "ttf-storage-databases[qdrant]"'
        return Availability(ok=False, reason="qdrant-client is not installed", fix=fix)

    def claims(self, uri: str) -> bool:
        return uri.startswith("qdrant://")

    def open(self, uri: str) -> Store:
        from ttf_storage_databases._engine import EngineStore

        return EngineStore(uri, self.name, _Collection(uri))

    def create(self, uri: str) -> StoreWriter:
        from ttf_storage_databases._engine import refuse_writing

        raise refuse_writing(uri)


class _Collection:
    """Points in the order of their ids."""

    dtype: DType = "float32"

    def __init__(self, uri: str) -> None:
        from qdrant_client import QdrantClient

        from ttf_storage_databases._engine import Address, as_ids

        at = Address.parse(uri, "vector")
        self._uri = uri
        self._name = at.table or at.path.strip("/")
        if at.host:
            key = os.environ.get("QDRANT_API_KEY")
            self._client = QdrantClient(host=at.host, port=at.port or 6333, api_key=key)
        elif not Path(at.path).is_dir():
            raise DataMissing(f"{uri}: there is no folder {at.path}.", hint="Check the path.")
        else:
            self._client = _local(uri, at.path)
        try:
            self._vector = self._chosen(at.options.get("vector"))
            self._own_ids = self._all_ids()
            self.ids: NDArray[Any] = as_ids(self._own_ids)
        except BaseException:
            self.close()
            raise

    def fetch(self, rows: NDArray[np.int64]) -> NDArray[Any]:
        import numpy as np

        wanted = [self._own_ids[row] for row in rows.tolist()]
        with_vectors = [self._vector] if self._vector else True
        found = self._client.retrieve(
            self._name, wanted, with_payload=False, with_vectors=with_vectors
        )
        by_id = {str(point.id): point.vector for point in found}
        out = np.empty((len(wanted), self.dim), np.float32)
        for place, one in enumerate(wanted):
            vector = by_id.get(str(one))
            vector = vector.get(self._vector) if isinstance(vector, dict) else vector
            if vector is None:
                raise BadData(f"{self._uri}: the point {one} has no such vector, or was removed.")
            out[place] = vector
        return out

    def check_unchanged(self) -> None:
        now = self._client.count(self._name, exact=True).count
        if now != len(self._own_ids):
            raise DataChanged(
                f"{self._uri} had {len(self._own_ids):,} points when it was opened, and now has "
                f"{now:,}.",
                hint="Do not write to the collection while it is read.",
            )

    def close(self) -> None:
        self._client.close()

    def _chosen(self, name: str | None) -> str:
        """The name of the vector; "" for the unnamed one. Sets `dim`."""
        known = [one.name for one in self._client.get_collections().collections]
        if self._name not in known:
            raise DataMissing(
                f"{self._uri}: there is no collection {self._name!r}. There are: "
                f"{', '.join(known) or 'none'}.",
                hint="qdrant://HOST:PORT/COLLECTION, or qdrant:///FOLDER#COLLECTION",
            )
        about = self._client.get_collection(self._name).config.params.vectors
        if not isinstance(about, dict):
            self.dim = int(about.size)
            return ""
        chosen = name or (next(iter(about)) if len(about) == 1 else "")
        if chosen not in about:
            raise ConfigError(
                f"{self._uri} has the vectors {', '.join(about)}.", hint="Add ?vector=NAME"
            )
        self.dim = int(about[chosen].size)
        return chosen

    def _all_ids(self) -> list[Any]:
        found: list[Any] = []
        offset = None
        while True:
            points, offset = self._client.scroll(
                self._name, limit=_PAGE, offset=offset, with_payload=False, with_vectors=False
            )
            found += [point.id for point in points]
            if offset is None:
                numbers = sorted(one for one in found if isinstance(one, int))
                return [*numbers, *sorted((o for o in found if not isinstance(o, int)), key=str)]


def _local(uri: str, path: str) -> Any:
    from qdrant_client import QdrantClient

    try:
        return QdrantClient(path=path)
    except RuntimeError as error:  # another client has the folder open
        raise ConfigError(f"{uri}: {error}", hint="Close the other program first.") from error


@hookimpl
def ttf_storage(name: str) -> StorageFactory | None:
    return QdrantStorage() if name == QdrantStorage.name else None
