"""The queries of a file, for a search: vectors or sequences, without positives."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from ttf.config.schema import DataConfig
from ttf.contracts import TowerShape, VectorSource
from ttf.data.dataset import Queries, need_floats, queries_of
from ttf.data.named_arrays import NamedArrays
from ttf.data.open_dataset import Opening
from ttf.errors import ArrayMissing, BadData
from ttf.host.plugins import open_store

_FIRST = ("X_test", "X_val", "X_train", "seq_test", "seq_val", "seq_train")
_LENGTHS = ("len", "seq_len", "seqlen")


@contextlib.contextmanager
def open_queries(
    uri: str,
    config: DataConfig,
    bank: Callable[[], VectorSource],
    say: Callable[[str], None] = lambda _: None,
) -> Iterator[Queries]:
    """Yields an array `vectors`, or the first X_* or seq_* of the file; closed after the `with`.

    `say` is told which of several arrays it is, and of lengths and masks that are not used.
    """
    with Opening(config) as opening:
        arrays = NamedArrays(open_store(uri), {})
        opening.adopt(arrays.store)
        chosen = _chosen(arrays)
        found = _queries(
            arrays, chosen, lambda: bank() if config.context is None else opening.context
        )
        others = [name for name in _FIRST if name != chosen and name in arrays.store.names()]
        if others:
            say(f"The queries are {chosen} of {arrays.uri}, which also has {', '.join(others)}.")
        if found.sequence:
            for note in _unused_lengths(arrays, chosen):
                say(note)
        yield found


def _chosen(arrays: NamedArrays) -> str:
    """The name of the array with the queries."""
    present = sorted(arrays.store.names())
    if "vectors" in present:
        return "vectors"
    named = [name for name in _FIRST if name in present]
    named += [name for name in present if name.startswith("X_")]
    if not named:
        raise ArrayMissing(
            f"{arrays.uri} has no queries. It must have an array `vectors`, X_* or seq_*, but it "
            f"has: {', '.join(present) or 'no arrays'}."
        )
    return named[0]


def _queries(arrays: NamedArrays, chosen: str, context: Callable[[], VectorSource]) -> Queries:
    if chosen != "vectors":
        return queries_of(arrays, chosen.partition("_")[2], context)
    source = arrays["vectors"]
    if source.dtype in ("int32", "int64"):
        raise BadData(
            f"vectors in {arrays.uri} has the type {source.dtype}, so it cannot be vectors.",
            hint="If these are numbers of items, or rows of the context, save them as"
            " seq_test: numpy.savez('queries.npz', seq_test=numbers)",
        )
    need_floats(source, arrays.stored_type("vectors"), (2, 3), "(N, D) or (N, L, D)")
    return Queries(source, None, None)


def _unused_lengths(arrays: NamedArrays, chosen: str) -> Iterator[str]:
    """A note if the file has lengths or masks under names that a search does not read."""
    split = chosen.partition("_")[2]
    # Those of another split belong to its own queries.
    others = [name for name in arrays.store.names() if name.startswith(("X_", "seq_"))]
    read = {f"{word}_{other.partition('_')[2]}" for word in ("len", "mask") for other in others}
    names = [name for name in arrays.store.names() if _seem_lengths(name)]
    unused = [name for name in names if chosen == "vectors" or name not in read]
    if not unused:
        return
    said = f"{', '.join(unused)} in {arrays.uri} {'is' if len(unused) == 1 else 'are'} not used"
    if not (f"len_{split}" in arrays or f"mask_{split}" in arrays):
        said += ", so every step of each sequence counts as valid"
    how = f"ttf reads the lengths of {chosen} from len_{split} (int64), or from mask_{split}"
    if chosen == "vectors":
        how = "Name the queries X_test, and their lengths len_test (int64) or mask_test"
    yield f"{said}. {how} (True for each valid step)."


def _seem_lengths(name: str) -> bool:
    low = name.lower()
    return "mask" in low or low.startswith(_LENGTHS)


def refuse_other_shape(queries: Queries, wanted: TowerShape) -> None:
    """Raises BadData for queries that a query tower was not trained for."""
    file = queries.source.uri
    if queries.dim != wanted.in_dim:
        raise BadData(
            f"The query tower was trained with vectors of width {wanted.in_dim}, but the "
            f"queries of {file} have the width {queries.dim}."
        )
    if queries.length > wanted.length:
        trained = f"sequences of {wanted.length} steps" if wanted.sequence else "single vectors"
        raise BadData(
            f"The query tower was trained with {trained}, but the queries of {file} are "
            f"sequences of {queries.length} steps.",
            hint=(
                "Keep only the last steps of each query, or train a tower with sequences "
                "of that length."
                if wanted.sequence
                else "Make one vector of each query, as in the training data, for example the "
                "mean of its steps; or train a tower with sequences."
            ),
        )
