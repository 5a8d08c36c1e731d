"""A look at a bounded sample of the data before the first step: vectors that cannot be trained on,
and signs that files or rows do not belong together.

Small arrays are read whole. `ttf data verify` reads everything.

Shapes: S sampled rows, D dims, L steps.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ttf.contracts import VectorSource
from ttf.data.dataset import Dataset, Queries, Split
from ttf.data.finite import require_finite_documents, require_finite_queries
from ttf.data.items import Items
from ttf.data.padding import padded_numbers, padded_vectors
from ttf.data.vectors import FLOATS, row_norms, to_float32, unit_rows
from ttf.errors import BadData

_READ_WHOLE_BYTES: Final = 16 << 20
_SAMPLE_BYTES: Final = 4 << 20
_MOST_ROWS: Final = 1024
_LEAST_ROWS: Final = 16
_BLOCK_ROWS: Final = 64  # Neighbours: compressed containers are read by blocks.
# Beyond these lengths the squares of a float32 vector overflow or vanish: it has no direction.
_LONGEST: Final = 1e18
_SHORTEST: Final = 1e-18

_RANKED_PAIRS: Final = 128
_FEWEST_RANKED: Final = 32
_DEVIATIONS: Final = 3.0
_HASHED_BYTES: Final = 64 << 20
_REPEATED_SHARE: Final = 0.1


def look(data: Dataset) -> Iterator[str]:
    """Messages for the user. Raises BadData for vectors that cannot be trained on."""
    for split in (data.train, data.val):
        rows = _sampled(len(split), _width(split.queries))
        where = f"{split.queries.source.name} in {split.queries.source.uri}"
        if not _same_array(split, data):
            yield from padded_numbers(split, rows, where)
    yield from _own_negatives_that_are_right(data.train)
    if isinstance(data.bank, Items):
        yield from _repeated(data)
        return
    for split in (data.train, data.val):
        rows = _sampled(len(split), split.queries.length * split.queries.dim)
        x = split.batch(rows).x
        require_finite_queries(split, rows, x)
        where = f"{split.queries.source.name} in {split.queries.source.uri}"
        if not _same_array(split, data):
            yield from padded_vectors(split.queries, x, where)
        yield from _lengths(x.reshape(len(x), -1), where, are_queries=True)
    yield from _documents(data)
    yield from _repeated(data)
    yield from _at_random(data)


def _same_array(split: Split, data: Dataset) -> bool:
    """Validation pairs that were drawn lie in the array of the others: what is padded there was said."""
    return split is data.val and split.drawn


def _documents(data: Dataset) -> Iterator[str]:
    bank = data.bank
    rows = _sampled(bank.shape[0], bank.shape[1])
    vectors = to_float32(bank.gather(rows), bank.dtype)
    require_finite_documents(data, rows, vectors)
    yield from _lengths(vectors, f"{bank.name} in {bank.uri}")


def _sampled(count: int, width: int) -> NDArray[np.int64]:
    """All rows, or blocks of neighbours spread evenly."""
    row_bytes = 4 * width
    if count * row_bytes <= _READ_WHOLE_BYTES:
        return np.arange(count)
    wanted = min(max(_SAMPLE_BYTES // row_bytes, _LEAST_ROWS), _MOST_ROWS, count)
    block = min(_BLOCK_ROWS, max(1, wanted // _LEAST_ROWS))
    starts = np.linspace(0, count - block, wanted // block).astype(np.int64)
    return np.unique((starts[:, None] + np.arange(block)).reshape(-1))


# --- vectors without a direction --------------------------------------------------------------


def _lengths(
    rows_SD: NDArray[np.float32], where: str, *, are_queries: bool = False
) -> Iterator[str]:
    lengths = row_norms(rows_SD)
    without = ~((lengths > _SHORTEST) & (lengths < _LONGEST))
    first = int(without.argmax())
    if without.all():
        raise BadData(
            f"{where}: all {len(lengths):,} checked rows {_what_they_are(lengths)}.",
            hint=(
                "Such a vector has no direction, so it cannot be compared with others. Check "
                "how the file was made, or scale the vectors."
            ),
        )
    if without.any():
        one = without.sum() == 1
        result = f"no query can find {'it' if one else 'them'}"
        if are_queries:
            result = f"all documents are equally near to {'it' if one else 'them'}"
        yield (
            f"{where}: {int(without.sum()):,} of {len(lengths):,} checked rows "
            f"{_what_they_are(lengths[without])} (the first: norm {lengths[first]:.3g}). "
            f"{'It has' if one else 'They have'} no direction, so {result}."
        )
    elif len(rows_SD) > 1 and bool((rows_SD == rows_SD[0]).all()):
        yield f"{where}: all {len(rows_SD):,} checked rows are the same vector."


def _what_they_are(lengths: NDArray[np.float32]) -> str:
    one = len(lengths) == 1
    are, have, norms, their = (
        ("is", "has", "a norm", "its") if one else ("are", "have", "norms", "their")
    )
    if not lengths.any():
        return f"{are} zero"
    if (lengths >= _LONGEST).all():
        return (
            f"{have} {norms} so large (up to {lengths.max():.3g}) that the square does not fit in "
            "float32"
        )
    return (
        f"{are} zero, or {their} norm is so small or so large that its square does not fit in "
        "float32"
    )


# --- rows that do not belong together -----------------------------------------------------------


def _own_negatives_that_are_right(split: Split) -> Iterator[str]:
    if split.negatives is None:
        return
    rows = _sampled(len(split), split.negatives.shape[1])
    own_SK, known_SP = split.negatives[split.keep[rows]], split.known(rows)
    given = own_SK >= 0
    right = given & (own_SK[:, :, None] == known_SP[:, None, :]).any(axis=2)
    if right.any():
        yield (
            f"neg_train: {int(right.sum()):,} of {int(given.sum()):,} checked own negatives are positives "
            "of the same pair, so they teach it nothing."
        )


def _repeated(data: Dataset) -> Iterator[str]:
    """Validation queries that are trained on."""
    train, val = data.train, data.val
    sample = _sampled(len(val), _width(val.queries))[:_MOST_ROWS]
    asked = [row.tobytes() for row in _stored(val, sample)]
    if 4 * len(train) * _width(train.queries) <= _HASHED_BYTES:
        known = {row.tobytes() for row in _stored(train, np.arange(len(train)))}
        repeated = sum(row in known for row in asked)
    else:
        sample = sample[sample < len(train)]
        there = [row.tobytes() for row in _stored(train, sample)]
        repeated = sum(a == b for a, b in zip(asked, there, strict=False))
    if repeated >= max(1, _REPEATED_SHARE * len(asked)):
        yield (
            f"{repeated:,} of {len(asked):,} checked validation queries are also training queries "
            f"({val.queries.source.name} repeats {train.queries.source.name}), so the metrics do "
            "not show how good the model is for new queries."
        )


def _width(queries: Queries) -> int:
    return int(np.prod(queries.source.shape[1:]))


def _stored(split: Split, rows: NDArray[np.int64]) -> NDArray[Any]:
    # As float32 or int64: both files may hold another type.
    source = split.queries.source
    found = source.gather(split.keep[rows])
    is_float = source.dtype in FLOATS
    return to_float32(found, source.dtype) if is_float else found.astype(np.int64)


def _at_random(data: Dataset) -> Iterator[str]:
    """Says if stored queries are no nearer to their own positives than to those of others."""
    found = share_ranked_right(data.train, data.bank)
    if found is None:
        return
    share, pairs = found
    if abs(share - 0.5) < _DEVIATIONS * np.sqrt(1 / 12 / pairs):
        yield (
            "Before training, a query is no nearer to its positive than to the positive of "
            f"another query ({share:.0%} of the comparisons among {pairs} training pairs; chance "
            "is 50%). This is normal if queries and documents come from different encoders. If "
            "they come from the same encoder, the pairs are shuffled or belong to another bank."
        )


def share_ranked_right(split: Split, bank: VectorSource) -> tuple[float, int] | None:
    """(share, pairs): how often the stored vector of a query (the mean or the last of a sequence) is
    nearer to its own positive, by cosine. None if the widths differ or the pairs are few."""
    if split.queries.dim != bank.shape[1]:
        return None
    rows = np.linspace(0, len(split) - 1, min(_RANKED_PAIRS, len(split))).astype(np.int64)
    known = split.known(rows)
    first = np.take_along_axis(known, (known >= 0).argmax(axis=1)[:, None], axis=1)[:, 0]
    _, at = np.unique(first, return_index=True)
    if len(at) < _FEWEST_RANKED:
        return None
    documents = unit_rows(to_float32(bank.gather(first[at]), bank.dtype))
    batch = split.batch(rows[at])
    shares = []
    for vectors in _seen(batch.x, batch.lengths):
        scores = unit_rows(vectors) @ documents.T
        own = np.diag(scores)[:, None]
        right = (own > scores).sum() + 0.5 * ((own == scores).sum() - len(at))
        shares.append(float(right / (len(at) * (len(at) - 1))))
    return max(shares, key=lambda share: abs(share - 0.5)), len(at)


def _seen(
    x: NDArray[np.float32], lengths: NDArray[np.int64] | None
) -> Iterator[NDArray[np.float32]]:
    if x.ndim == 2:
        yield x
        return
    steps = np.full(len(x), x.shape[1]) if lengths is None else lengths
    yield x.sum(axis=1)  # the padding is zero
    yield x[np.arange(len(x)), steps - 1]
