"""The queries of a file to search with."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from ttf.config.schema import DataConfig
from ttf.contracts import VectorSource
from ttf.data.dataset import Queries
from ttf.data.named_arrays import NamedArrays, need_floats, queries_of
from ttf.data.open_dataset import Opening
from ttf.errors import ArrayMissing
from ttf.host.plugins import open_store


@contextlib.contextmanager
def open_queries(uri: str, config: DataConfig, bank: VectorSource) -> Iterator[Queries]:
    """An array `vectors`, or the first X_* or seq_* of the file; closed after the `with`."""
    with Opening(config) as opening:
        arrays = NamedArrays(open_store(uri), {})
        opening.adopt(arrays.store)
        yield _found_queries(arrays, opening, config, bank)


def _found_queries(
    arrays: NamedArrays, opening: Opening, config: DataConfig, bank: VectorSource
) -> Queries:
    if "vectors" in arrays:
        source = arrays["vectors"]
        need_floats(source, (2, 3), "(N, D) or (N, L, D)")
        return Queries(source, None, None)
    present = sorted(arrays.store.names())
    order = ["X_test", "X_val", "X_train", "seq_test", "seq_val", "seq_train"]
    named = [n for n in order if n in present] + [n for n in present if n.startswith("X_")]
    if not named:
        raise ArrayMissing(
            f"{arrays.uri} has no queries: neither `vectors` nor any X_* or seq_*; "
            f"it has: {', '.join(present) or 'nothing'}."
        )
    split = named[0].partition("_")[2]
    return queries_of(arrays, split, lambda: bank if config.context is None else opening.context)
