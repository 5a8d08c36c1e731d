"""Open files of Arrow and Parquet: their columns in pieces that are decoded one at a time.

A row group of Parquet is often the whole file. Its pages are therefore decoded in order, some rows
at a time; whoever reads on continues where the last read ended.
"""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ttf import BadData, ParquetPages, StorageError, arrow_batches, numpy_dtype, open_named
from ttf_storage._mapped import FileIdentity, check_identity, unreadable
from ttf_storage._table_columns import is_text, layout_of, leaf_of, leaves

PIECE_BYTES: Final = 4 << 20
_READ_BYTES: Final = 1 << 20
# Of compressed record batches, which cannot be mapped.
_MOST_DECODED_BYTES: Final = 256 << 20
_MOST_FOOTER: Final = 256 << 20


class Pieces(Protocol):
    """A column, cut into pieces of some rows."""

    bounds: NDArray[np.int64]
    """The first row of each piece, then the number of rows."""
    mapped: bool
    """The pieces lie in mapped files: to get one costs nothing."""

    def piece(self, number: int) -> pa.Array: ...


class TableFile(Protocol):
    path: Path
    schema: pa.Schema
    num_rows: int
    identity: FileIdentity

    def pieces(self, name: str, row_bytes: int) -> Pieces: ...
    def stored(self, name: str) -> tuple[int, str]:
        """The size of a column in the file, and its compression."""

    def close(self) -> None: ...


def open_table(path: Path) -> TableFile:
    """Raises BadData for a file that is neither Parquet nor Arrow."""
    with explained(path):
        with open_named(path) as file:
            head = file.read(8)
        if head.startswith(b"PAR1"):
            return ParquetTable(path)
        if head.startswith((b"ARROW1", b"\xff\xff\xff\xff")):
            return ArrowTable(path)
        what = "is empty" if not head else "is neither a Parquet file nor an Arrow file"
        raise BadData(f"{path} {what}.", hint="Write or copy the file again.")


@contextlib.contextmanager
def explained(path: Path) -> Iterator[None]:
    """Arrow's errors and those of the disk as errors of ttf."""
    try:
        yield
    except (OSError, pa.ArrowException, ValueError, MemoryError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise unreadable(path, error) from error
        raise BadData(
            f"{path} is damaged: {str(error).splitlines()[0][:300]}",
            hint="Write or copy the file again.",
        ) from error


class ParquetTable:
    """Read with plain reads: of a file that is cut meanwhile, a map would be a bus error."""

    def __init__(self, path: Path) -> None:
        self.path = path
        handle = open_named(path)
        self._close = weakref.finalize(self, handle.close)  # also of a store that nobody closes
        try:
            self.identity = FileIdentity.of(handle.fileno())
            self.reader = pq.ParquetFile(
                handle,
                buffer_size=_READ_BYTES,  # else Arrow reads a column of a row group as a whole
                pre_buffer=False,
                page_checksum_verification=True,
                thrift_string_size_limit=_MOST_FOOTER,
            )
        except BaseException:
            self._close()
            raise
        self.schema = self.reader.schema_arrow
        self.num_rows = int(self.reader.metadata.num_rows)
        self.lock = threading.Lock()  # one position in the file
        self.pages = ParquetPages(path, handle, self.reader.metadata)

    def pieces(self, name: str, row_bytes: int) -> Pieces:
        rows, field = max(1, PIECE_BYTES // max(1, row_bytes)), leaves(self.schema)[name]
        if is_text(field.type):
            with self.lock:
                return _ParquetPieces(self, name, self.pages.rows_at_once(name, rows), 0)
        item_bytes = numpy_dtype(layout_of(field, name).dtype).itemsize
        return _ParquetPieces(self, name, rows, item_bytes)

    def stored(self, name: str) -> tuple[int, str]:
        metadata, size, codecs = self.reader.metadata, 0, set()
        for group in range(metadata.num_row_groups):
            row_group = metadata.row_group(group)
            for number in range(metadata.num_columns):
                chunk = row_group.column(number)
                if f"{chunk.path_in_schema}.".startswith(f"{name}."):
                    size += int(chunk.total_compressed_size)
                    codecs.add(str(chunk.compression).lower())
        codecs.discard("uncompressed")
        return size, ", ".join(sorted(codecs)) or "stored"

    def close(self) -> None:
        self.reader.close()
        self._close()


class _ParquetPieces:
    mapped = False

    def __init__(self, table: ParquetTable, name: str, rows: int, item_bytes: int) -> None:
        self._table, self._name, self._item_bytes = table, name, item_bytes
        self._top = next(f.name for f in table.schema if f"{name}.".startswith(f"{f.name}."))
        self._rows = rows
        bounds, start = [0], 0
        self._group: list[int] = []
        self._first_piece: list[int] = []
        for group in range(table.reader.metadata.num_row_groups):
            count = int(table.reader.metadata.row_group(group).num_rows)
            self._first_piece.append(len(self._group))
            pieces = -(-count // rows)
            self._group += [group] * pieces
            bounds += [start + min(count, (i + 1) * rows) for i in range(pieces)]
            start += count
        self.bounds = np.array(bounds, np.int64)
        self._opened = self._next = -1  # The group that is being decoded, and the next piece.
        self._batches: Iterator[pa.RecordBatch] = iter(())
        self._rest: pa.Array | None = None

    def piece(self, number: int) -> pa.Array:
        group, table = self._group[number], self._table
        with table.lock, explained(table.path):
            if self._item_bytes:
                table.pages.check_numbers(group, self._name, self._item_bytes)
            if not (0 <= self._next <= number and self._opened == group):
                self._batches = table.reader.iter_batches(
                    self._rows, row_groups=[group], columns=[self._name], use_threads=False
                )
                self._opened, self._next, self._rest = group, self._first_piece[group], None
            try:
                for skipped in range(self._next, number):
                    self._taken(int(self.bounds[skipped + 1] - self.bounds[skipped]))
                found = self._taken(int(self.bounds[number + 1] - self.bounds[number]))
            except BaseException:
                self._next = -1
                raise
            self._next = number + 1
            return leaf_of(found, self._name, self._top)

    def _taken(self, rows: int) -> pa.Array:
        """The next rows. Batches may have other sizes than asked for: the size is a setting of the
        file, which another column changes."""
        parts: list[pa.Array] = []
        while rows:
            if self._rest is None or not len(self._rest):
                batch = next(self._batches, None)
                if batch is None:
                    raise ValueError("it has fewer rows than it declares")
                self._rest = batch.column(0)
            parts.append(self._rest.slice(0, rows))
            rows -= len(parts[-1])
            self._rest = self._rest.slice(len(parts[-1]))
        return parts[0] if len(parts) == 1 else pa.concat_arrays(parts)


class ArrowTable:
    """The file format and the stream format, mapped."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with open_named(path) as file:  # refuses devices and pipes
            self.identity = FileIdentity.of(file.fileno())
            streamed = file.read(4) == b"\xff\xff\xff\xff"
            if sum(batch.unpacked for batch in arrow_batches(file, path)) > _MOST_DECODED_BYTES:
                raise _too_large(path)
        before = pa.total_allocated_bytes()
        self._map = pa.memory_map(str(path))
        self.batches: list[pa.RecordBatch] = []
        self.compressed = False
        try:
            opened = (pa.ipc.open_stream if streamed else pa.ipc.open_file)(self._map)
            self.schema = opened.schema
            batches = (
                opened if streamed else map(opened.get_batch, range(opened.num_record_batches))
            )
            for batch in batches:
                batch.validate(full=False)
                self.batches.append(batch)
                self.compressed = pa.total_allocated_bytes() > before
        except BaseException:
            self.close()
            raise
        self.num_rows = sum(batch.num_rows for batch in self.batches)

    def pieces(self, name: str, row_bytes: int) -> Pieces:
        return _ArrowPieces(self, name)

    def stored(self, name: str) -> tuple[int, str]:
        pieces = _ArrowPieces(self, name)
        size = sum(pieces.piece(i).get_total_buffer_size() for i in range(len(self.batches)))
        return size, "compressed" if self.compressed else "stored"

    def close(self) -> None:
        # Not `self._map.close`: arrays on the map may live on.
        self.batches = []


def _too_large(path: Path) -> StorageError:
    return StorageError(
        f"{path} is a compressed Arrow file, which can only be decoded as a whole, and it is too large "
        "for that.",
        hint="Write it as Parquet, or without compression: "
        "pyarrow.feather.write_feather(table, FILE, compression='uncompressed').",
    )


class _ArrowPieces:
    mapped = True

    def __init__(self, table: ArrowTable, name: str) -> None:
        self._table, self._name = table, name
        self._top = next(f.name for f in table.schema if f"{name}.".startswith(f"{f.name}."))
        counts = [batch.num_rows for batch in table.batches]
        self.bounds = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)]).astype(np.int64)

    def piece(self, number: int) -> pa.Array:
        with explained(self._table.path):
            column = self._table.batches[number].column(self._top)
            found = leaf_of(column, self._name, self._top)
            if is_text(found.type):
                # Where texts begin is told by the file; Arrow believes it when it reads them.
                found.validate(full=True)
            return found


class Chained:
    """The pieces of the files of one table, one file after another."""

    def __init__(self, parts: list[Pieces]) -> None:
        self._parts = parts
        self.mapped = all(part.mapped for part in parts)
        self._at: list[tuple[Pieces, int]] = []
        bounds, start = [np.zeros(1, np.int64)], 0
        for part in parts:
            self._at += [(part, number) for number in range(len(part.bounds) - 1)]
            bounds.append(part.bounds[1:] + start)
            start += int(part.bounds[-1])
        self.bounds = np.concatenate(bounds)

    def piece(self, number: int) -> pa.Array:
        part, inner = self._at[number]
        return part.piece(inner)


def check_files(files: list[TableFile]) -> None:
    for file in files:
        check_identity(file.path, file.identity)
