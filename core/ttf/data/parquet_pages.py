"""What the pages of a Parquet file unpack to, read from their headers before anything is decoded.

A page of a few hundred bytes can hold gigabytes: one number that is repeated, or rows that all name
one long text. Arrow decodes what it is asked for, so who asks must know. Headers are structs of
Thrift's compact protocol (parquet.thrift and thrift-compact-protocol.md of the Apache projects);
pyarrow reads them, but does not show them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

from ttf.errors import BadData

AT_ONCE: Final = 128 << 20
"""Bytes that a batch of texts may have."""
_SMALL: Final = 256 << 20
_MOST_TIMES: Final = 1000
_ENTRY_BYTES: Final = 16
_HEADER_BYTES: Final = 64 << 10
_MOST_DEPTH: Final = 8
_MOST_PAGES: Final = 500_000
_DICTIONARY_PAGE: Final = 2
_HEADS: Final = (5, 7, 8)  # of a data page, a dictionary page, a data page of version 2


@dataclass(frozen=True)
class Page:
    kind: int
    unpacked: int
    packed: int
    values: int


class ParquetPages:
    """The pages of an open file; `metadata` is that of `pyarrow.parquet.ParquetFile`."""

    def __init__(self, path: Path, file: BinaryIO, metadata: Any) -> None:
        self._path, self._file, self._metadata = path, file, metadata
        self._fine: set[tuple[int, str]] = set()

    def rows_at_once(self, column: str, most: int) -> int:
        """How many rows of a column of texts stay below AT_ONCE whatever they hold, at most `most`."""
        longest = 1
        for group in range(self._metadata.num_row_groups):
            for chunk in self._chunks(group, column):
                longest = max(longest, self._longest_text(chunk, column))
        return max(1, min(most, AT_ONCE // longest))

    def check_numbers(self, group: int, column: str, item_bytes: int) -> None:
        """Raises BadData where a row group of numbers unpacks to far more than any real one."""
        if (group, column) in self._fine:
            return
        for chunk in self._chunks(group, column):
            for page in self.of(chunk):
                unpacked = max(page.unpacked, page.values * item_bytes)
                self._refuse_if_much(column, unpacked, page.packed)
            declared = int(chunk.num_values) * item_bytes
            self._refuse_if_much(column, declared, int(chunk.total_compressed_size))
        self._fine.add((group, column))

    def of(self, chunk: Any) -> Iterator[Page]:
        """The pages of a column chunk, in order."""
        here = int(chunk.data_page_offset)
        if chunk.has_dictionary_page and chunk.dictionary_page_offset:
            here = min(here, int(chunk.dictionary_page_offset))
        end, values, count = here + int(chunk.total_compressed_size), 0, 0
        while here < end and values < int(chunk.num_values):  # Arrow stops there, too
            self._file.seek(here)
            header = _Header(self._file.read(_HEADER_BYTES))
            try:
                page = header.page()
            except (LookupError, ValueError, TypeError) as error:
                raise self._damaged(f"the header of a page ({error})") from error
            here += header.at + page.packed
            values += page.values if page.kind != _DICTIONARY_PAGE else 0
            count += 1
            if count > _MOST_PAGES:
                raise self._damaged(f"a column of more than {_MOST_PAGES:,} pages")
            yield page

    def _longest_text(self, chunk: Any, column: str) -> int:
        by_prefix, longest = "DELTA_BYTE_ARRAY" in chunk.encodings, 1
        # A row can be a list of any length, and a billion equal entries take no room.
        if _is_repeated(self._metadata, chunk):
            entries = int(chunk.num_values) * _ENTRY_BYTES
            self._refuse_if_much(column, entries, int(chunk.total_compressed_size))
        for page in self.of(chunk):
            self._refuse_if_much(column, page.unpacked, page.packed)
            # Any row may be as long as the dictionary, and behind a prefix as long as its page.
            if by_prefix or page.kind == _DICTIONARY_PAGE:
                longest = max(longest, page.unpacked)
        return longest

    def _chunks(self, group: int, column: str) -> Iterator[Any]:
        row_group = self._metadata.row_group(group)
        for number in range(self._metadata.num_columns):
            chunk = row_group.column(number)
            if f"{chunk.path_in_schema}.".startswith(f"{column}."):
                yield chunk

    def _refuse_if_much(self, column: str, unpacked: int, packed: int) -> None:
        if unpacked > max(_SMALL, _MOST_TIMES * packed):
            raise BadData(
                f"{self._path}: {packed:,} bytes of the column {column!r} unpack to {unpacked / 1e9:,.1f} GB, "
                "which no real data does.",
                hint="If you trust the file, write it again without dictionaries and compression: "
                "pyarrow.parquet.write_table(table, FILE, use_dictionary=False, compression='none')",
            )

    def _damaged(self, what: str) -> BadData:
        return BadData(
            f"{self._path} is damaged: {what} cannot be read.",
            hint="Write or copy the file again.",
        )


def _is_repeated(metadata: Any, chunk: Any) -> bool:
    columns = map(metadata.schema.column, range(metadata.num_columns))
    levels = {column.path: column.max_repetition_level for column in columns}
    return bool(levels.get(chunk.path_in_schema, 1))


class _Header:
    """A struct of the compact protocol; `at` is the position behind what was read."""

    def __init__(self, data: bytes) -> None:
        self._data, self.at = data, 0

    def page(self) -> Page:
        """Raises LookupError, TypeError or ValueError for what is no header of a page."""
        found = self._struct(0)
        kind, unpacked, packed = (found[number] for number in (1, 2, 3))
        head = next((found[n] for n in _HEADS if n in found), {1: 0})
        if min(unpacked, packed, head[1]) < 0:
            raise ValueError("a negative size")
        return Page(kind, unpacked, packed, head[1])

    def _struct(self, depth: int) -> dict[int, Any]:
        if depth > _MOST_DEPTH:
            raise ValueError("structs in structs")
        found: dict[int, Any] = {}
        number = 0
        while kind := self._byte():
            step, kind = kind >> 4, kind & 15
            number = number + step if step else self._signed()
            found[number] = kind == 1 if kind in (1, 2) else self._value(kind, depth)
        return found

    def _value(self, kind: int, depth: int) -> Any:
        if kind in (1, 2, 3):  # a truth value of a list, and a byte
            return self._byte()
        if kind in (4, 5, 6):
            return self._signed()
        if kind in (7, 8, 13):
            return self._skip({7: 8, 13: 16}.get(kind) or self._unsigned())
        if kind in (9, 10):
            head = self._byte()
            count = head >> 4 if head >> 4 < 15 else self._unsigned()
            return [self._value(head & 15, depth + 1) for _ in range(self._counted(count))]
        if kind == 12:
            return self._struct(depth + 1)
        raise ValueError(f"the type {kind}")

    def _byte(self) -> int:
        self.at += 1
        return self._data[self.at - 1]

    def _skip(self, size: int) -> None:
        self.at += self._counted(size)

    def _counted(self, size: int) -> int:
        if size > len(self._data):
            raise ValueError("a length beyond its end")
        return size

    def _unsigned(self) -> int:
        value = shift = 0
        while (byte := self._byte()) & 128:
            value |= (byte & 127) << shift
            shift += 7
            if shift > 63:
                raise ValueError("a number of more than 64 bits")
        return value | byte << shift

    def _signed(self) -> int:
        value = self._unsigned()
        return value >> 1 ^ -(value & 1)
