"""Rows of Arrow batches as values of Python, some at a time.

In Arrow a million rows can name one long text, and a list can have a billion entries in a few bytes;
in Python each is an object of its own. What rows take is therefore counted before they are made.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ttf.errors import BadData

MOST_BYTES: Final = 64 << 20
"""Of the objects of Python that are made at once, and of one row."""
_MOST_ROWS: Final = 4096
_MOST_ENTRIES: Final = 4 << 20
_OBJECT_BYTES: Final = 64


def python_rows(batch: Any, names: Sequence[str], uri: str) -> Iterator[tuple[Any, ...]]:
    """The values of these columns. Raises BadData for a row that is too large; `pyarrow.ArrowInvalid`
    for a column whose texts lie outside of what was read."""
    wanted = {name: batch.column(name) for name in dict.fromkeys(names)}
    for column in wanted.values():
        column.validate(full=True)  # Arrow itself believes what a file says.
    for start, stop in parts_of(list(wanted.values()), batch.num_rows, uri):
        held = {name: column.slice(start, stop - start) for name, column in wanted.items()}
        lists = {name: column.to_pylist() for name, column in held.items()}
        yield from zip(*(lists[name] for name in names), strict=True)


def parts_of(columns: Sequence[Any], rows: int, uri: str) -> Iterator[tuple[int, int]]:
    """Rows from start to stop that may be made at once, one part after another."""
    start = 0
    while start < rows:
        count = min(rows - start, _MOST_ROWS)
        while (
            entries := sum(_entries(one.slice(start, count)) for one in columns)
        ) > _MOST_ENTRIES:
            if count == 1:
                raise _too_large(uri, f"has {entries:,} entries")
            count = -(-count // 2)
        sizes = sum(_sizes(one.slice(start, count), uri) for one in columns)
        ends = np.cumsum(sizes)
        if ends[0] > MOST_BYTES:
            raise _too_large(uri, f"takes {int(ends[0]) / 1e6:,.0f} MB")
        stop = start + int(np.searchsorted(ends, MOST_BYTES, side="right"))
        yield start, stop
        start = stop


def _too_large(uri: str, what: str) -> BadData:
    return BadData(
        f"{uri}: a row {what}, and at most {MOST_BYTES >> 20} MB are read as one.",
        hint="A row is one example: a query, its documents, its negatives.",
    )


def _entries(values: Any) -> int:
    """Of all lists."""
    import pyarrow as pa

    if pa.types.is_struct(values.type):
        return sum(_entries(values.field(i)) for i in range(values.type.num_fields))
    if not _is_list(values.type):
        return 0
    inner = values.flatten()
    return len(inner) + _entries(inner)


def _sizes(values: Any, uri: str) -> NDArray[np.int64]:
    """Bytes of each value once it is an object of Python, or more."""
    import pyarrow as pa

    kind = values.type
    fixed = np.full(len(values), _OBJECT_BYTES, np.int64)
    if isinstance(values, pa.ExtensionArray):
        return _sizes(values.storage, uri)
    if pa.types.is_dictionary(kind):
        of_each = _sizes(values.dictionary, uri)
        places = values.indices.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
        return np.asarray(of_each[places], np.int64) if len(of_each) else fixed
    if pa.types.is_struct(kind):
        inner = [_sizes(values.field(i), uri) for i in range(kind.num_fields)]
        return np.asarray(np.sum([fixed, *inner], axis=0), np.int64)
    if _is_list(kind):
        return fixed + _sums(values, uri)
    if _is_text(kind):
        return fixed + _lengths(values)
    if kind.num_fields or not (pa.types.is_primitive(kind) or pa.types.is_null(kind)):
        raise BadData(
            f"{uri}: a column has the type {kind}, which ttf does not read.",
            hint="Write it as texts, numbers, or lists of them.",
        )
    return fixed


def _sums(lists: Any, uri: str) -> NDArray[np.int64]:
    import pyarrow.compute as pc

    lengths = pc.list_value_length(lists).fill_null(0).to_numpy(zero_copy_only=False)
    ends = np.concatenate([[0], np.cumsum(_sizes(lists.flatten(), uri))])
    bounds = np.concatenate([[0], np.cumsum(lengths.astype(np.int64))])
    return np.asarray(np.diff(ends[bounds]), np.int64)


def _lengths(texts: Any) -> NDArray[np.int64]:
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_string_view(texts.type) or pa.types.is_binary_view(texts.type):
        # Of 16 bytes for each value, the first four are its length; Arrow has no function for it.
        views = np.frombuffer(texts.buffers()[1], np.int32)[4 * texts.offset :]
        found = views[: 4 * len(texts) : 4].astype(np.int64)
        return np.where(texts.is_null().to_numpy(zero_copy_only=False), 0, found)
    lengths = pc.binary_length(texts).fill_null(0).to_numpy(zero_copy_only=False)
    return np.asarray(lengths.astype(np.int64))


def _is_list(kind: Any) -> bool:
    import pyarrow as pa

    tests = pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list
    return any(test(kind) for test in tests)


def _is_text(kind: Any) -> bool:
    import pyarrow as pa

    types = pa.types
    tests = types.is_string, types.is_large_string, types.is_binary, types.is_large_binary
    return any(test(kind) for test in (*tests, types.is_string_view, types.is_binary_view))
