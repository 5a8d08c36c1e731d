"""Zarr arrays read with the zarr library: compressed, in other chunks, or remote."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import shlex
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from ttf import BadData, DType, PluginUnavailable, TtfError, numpy_dtype
from ttf_storage._stored_rows import StoredRows
from ttf_storage._zarr_missing import Missing
from ttf_storage.zarr_store import INSTALL

if TYPE_CHECKING:
    from ttf_storage._zarr_checked_store import CheckedStore

_SAMPLED_ROWS: Final = 16
_MOST_LISTED: Final = 10_000_000


@contextmanager
def explained(where: str) -> Iterator[None]:
    """Turns every error of zarr, its codecs or a remote store into BadData with its text."""
    try:
        yield
    except (TtfError, MemoryError):
        raise
    except Exception as error:  # zarr's own classes, codecs', file systems' and servers'
        reason = str(error).strip().splitlines() or [""]
        raise BadData(
            f"{where}: zarr could not read it ({type(error).__name__}: {reason[0][:300]}).",
            hint="Check the address and the store. 'ttf data verify' reads the whole store.",
        ) from error


@contextmanager
def metadata_of(where: str) -> Iterator[None]:
    """`explained`, without zarr's warnings about types and codecs that others may not know: they are
    for those who write them."""
    with explained(where), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The data type", FutureWarning)
        warnings.filterwarnings("ignore", "Numcodecs codecs are not", UserWarning)
        yield


def open_store(uri: str) -> CheckedStore:
    """Opens the store at a path or URL for the zarr library."""
    if importlib.util.find_spec("zarr") is None:
        raise PluginUnavailable(
            f"{uri} can be read only with the zarr library, but zarr is not installed.",
            hint=INSTALL,
        )
    from ttf_storage._zarr_checked_store import checked_store

    with explained(uri):
        return checked_store(uri)


def open_node(store: CheckedStore, uri: str) -> Any:
    """Opens the group or array that a store begins with."""
    import zarr

    with metadata_of(uri):
        return zarr.open(store, mode="r", path=store.root)


class IndirectRows(StoredRows):
    """Rows from zarr's orthogonal selection; each distinct row is fetched once.

    The fingerprint covers the local files; of remote stores, the metadata and a sample of rows.
    """

    def __init__(
        self, name: str, uri: str, array: Any, dtype: DType, files_digest: Callable[[], str] | None
    ) -> None:
        super().__init__(name, uri, tuple(array.shape), dtype)
        self.held = "" if dtype == "bfloat16" or array.dtype == dtype else str(array.dtype)
        self._files_digest = files_digest
        self._array = array

    @property
    def over_network(self) -> str:
        """Each selection asks the server of a URL for chunks."""
        if "://" not in self.uri:
            return ""
        stem = self.uri.rstrip("/").rpartition("/")[2].partition(".")[0] or "data"
        return (
            "Convert it once, then use the folder (or upload it): ttf data convert "
            f"{shlex.quote(self.uri)} {shlex.quote(stem)}.objects"
        )

    def _take(self, rows: NDArray[np.int64], into: NDArray[Any]) -> None:
        # Sorted and distinct: some versions of zarr return other rows otherwise (#4203).
        distinct, places = np.unique(rows, return_inverse=True)
        rest = (slice(None),) * (len(self.shape) - 1)
        with explained(f"{self.uri}: the array {self.name!r}"):
            found = self._array.get_orthogonal_selection((distinct, *rest))
        into[...] = self._as_stored(found)[places]

    def _copy(self, start: int, stop: int, into: NDArray[Any]) -> None:
        with explained(f"{self.uri}: the array {self.name!r}"):
            into[...] = self._as_stored(self._array[start:stop])

    def _digest(self) -> str:
        if self._files_digest is not None:
            return self._files_digest()
        about = json.dumps(self._array.metadata.to_dict(), sort_keys=True, default=str)
        digest = hashlib.blake2b(about.encode(), digest_size=16)
        rows = self.shape[0]
        sample = np.linspace(0, max(0, rows - 1), min(rows, _SAMPLED_ROWS)).astype(np.int64)
        digest.update(self.gather(sample).tobytes())
        return digest.hexdigest()

    def _as_stored(self, found: Any) -> NDArray[Any]:
        with np.errstate(over="ignore"):
            return np.asarray(found).astype(numpy_dtype(self.dtype), copy=False)


def look_for_missing(array: Any, store: CheckedStore, missing: Missing, where: str) -> None:
    """For stores that are no folder: adds the chunks that do not exist. Of shards behind a URL, the
    chunks inside are looked at when they are read, of a server without lists all chunks."""
    if store.archive is not None:
        store.look_into_archive(missing)
        return
    if not store.lists:
        return
    if array.nchunks > _MOST_LISTED:
        raise BadData(
            f"{where} has {array.nchunks:,} chunks, but ttf reads at most {_MOST_LISTED:,} from a URL.",
            hint="Write the array with larger chunks.",
        )
    missing.add_some(max(0, array.nchunks - array.nchunks_initialized))
