"""An open table: a file whose columns are arrays, or a folder of Parquet files.

A folder holds either the parts of one table, in the order of their names, or a file per array whose
only column has the name of the file: training and validation arrays have different numbers of rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ttf import ArrayMissing, BadData, TtfError, numpy_dtype, suggestion
from ttf_storage._content_sample import sampled
from ttf_storage._npy_header import refuse_much_text
from ttf_storage._table_columns import (
    Layout,
    is_text,
    layout_of,
    leaves,
    rows_of,
    text_of,
)
from ttf_storage._table_files import (
    PIECE_BYTES,
    Chained,
    ParquetTable,
    Pieces,
    TableFile,
    check_files,
    open_table,
)
from ttf_storage._table_rows import DTYPE_OF_TEXT, Kept, TableRows

# Strings of these columns are listed as arrays; all others are texts, which may be gigabytes.
_IDS: Final = re.compile(r"(.*\.)?_?(ids?|(doc|document|row|point)_?ids?)", re.IGNORECASE)
_LONGEST_ID: Final = 1000
_TEXT_ROWS: Final = 65536


class TableStore:
    """`ttf.Store`; the files stay open until `close`."""

    container = "parquet"

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self._files: list[TableFile] = []
        self._kept = Kept()
        self._sources: dict[str, TableRows] = {}
        try:
            self._columns = self._opened(Path(uri))
        except BaseException:
            self.close()
            raise
        self.container = "parquet" if isinstance(self._files[0], ParquetTable) else "arrow"

    def names(self) -> list[str]:
        return [n for n, (field, _) in self._columns.items() if _is_array(n, field)]

    @property
    def left_out(self) -> list[str]:
        """Columns that are texts or of types that are no arrays."""
        return [n for n, (field, _) in self._columns.items() if not _is_array(n, field)]

    def source(self, name: str) -> TableRows:
        if name not in self._sources:
            field, files = self._column(name)
            where = f"{self.uri}: the array {name!r}"
            layout = self._measured(layout_of(field, where), name, files, where)
            self._sources[name] = TableRows(
                name,
                self.uri,
                layout,
                _pieces(files, name, _row_bytes(layout)),
                self._kept,
                lambda: sampled([f.path for f in files], [f.identity.size for f in files]),
            )
        return self._sources[name]

    def text(self, name: str) -> NDArray[np.str_]:
        _, files = self._column(name)
        stored = sum(min(file.stored(name)[0], file.identity.size) for file in files)
        blocks, rows, width = [np.empty(0, "U1")], 0, 0
        for block in self.text_blocks(name):
            rows, width = rows + len(block), max(width, block.dtype.itemsize)
            refuse_much_text(rows * width, stored, f"{self.uri}: the array {name!r}")
            blocks.append(block)
        return np.concatenate(blocks)

    def text_blocks(self, name: str) -> Iterator[NDArray[np.str_]]:
        """The strings of a column, some at a time."""
        field, files = self._column(name)
        if not is_text(field.type):
            raise BadData(f"{self.uri}: the array {name!r} holds no strings.")
        where, start = f"{self.uri}: the array {name!r}", 0
        pieces = _pieces(files, name, PIECE_BYTES // _TEXT_ROWS)
        for number in range(len(pieces.bounds) - 1):
            piece = pieces.piece(number)
            for begin in range(0, len(piece), _TEXT_ROWS):
                values = text_of(piece.slice(begin, _TEXT_ROWS), start, where, _LONGEST_ID)
                yield np.array(values, "U" if values else "U1")
                start += len(values)

    def describe(self, name: str) -> Mapping[str, Any]:
        field, files = self._column(name)
        sizes = [file.stored(name) for file in files]
        rows = sum(file.num_rows for file in files)
        facts: dict[str, Any] = {
            "shape": [rows],
            "dtype": DTYPE_OF_TEXT,
            "stored": ", ".join(sorted({stored for _, stored in sizes})),
            "mappable": False,
            "aligned": False,
            "bytes": sum(size for size, _ in sizes),
            "problem": None,
        }
        if is_text(field.type):
            return facts
        try:
            source = self.source(name)
        except TtfError as error:
            return facts | {"shape": None, "dtype": str(field.type), "problem": str(error)}
        held = source.held or source.dtype
        mapped = source.mappable
        return facts | {
            "shape": list(source.shape), "dtype": held, "mappable": mapped, "aligned": mapped,
        }  # fmt: skip

    def check_unchanged(self) -> None:
        check_files(self._files)

    def verify(self) -> Iterator[str]:
        for name in self.names():
            try:
                if is_text(self._columns[name][0].type):
                    self.text(name)
                    continue
                source = self.source(name)
                for number in range(source.num_pieces):
                    source.decoded(number)
            except TtfError as error:
                yield str(error)

    def close(self) -> None:
        self._kept.clear()
        for file in self._files:
            file.close()

    def _column(self, name: str) -> tuple[pa.Field, list[TableFile]]:
        if name not in self._columns:
            raise ArrayMissing(
                f"{self.uri}: there is no column {name!r}.{suggestion(name, self._columns)}"
            )
        return self._columns[name]

    def _opened(self, path: Path) -> dict[str, tuple[pa.Field, list[TableFile]]]:
        if not path.is_dir():
            self._files.append(open_table(path))
            return {n: (f, self._files) for n, f in leaves(self._files[0].schema).items()}
        parts = sorted(p for p in path.rglob("[!._]*.parquet") if p.is_file())
        if not parts:
            raise BadData(f"{path} is a folder without Parquet files.", hint="Check the path.")
        for part in parts:
            self._files.append(open_table(part))
        if all(file.schema.names == [file.path.stem] for file in self._files):
            return {f.path.stem: (f.schema.field(0), [f]) for f in self._files}
        first = self._files[0]
        for file in self._files[1:]:
            if not file.schema.equals(first.schema, check_metadata=False):
                raise BadData(
                    f"{file.path} has other columns than {first.path.name}, so they are not parts of "
                    f"one table: {_columns(file)}, not {_columns(first)}.",
                    hint="Name one of the files, or write all with the same columns.",
                )
        return {n: (f, self._files) for n, f in leaves(first.schema).items()}

    def _measured(self, layout: Layout, name: str, files: list[TableFile], where: str) -> Layout:
        """With the lengths of the lists of the first row, which all rows must have."""
        if layout.known:
            return layout
        pieces = _pieces(files, name, PIECE_BYTES)  # one row at a time
        filled = np.flatnonzero(np.diff(pieces.bounds))
        if not len(filled):
            return Layout(tuple(max(0, n) for n in layout.tail), layout.dtype, layout.held)
        values, tail = pieces.piece(int(filled[0])).slice(0, 1), []
        for width in layout.tail:
            if not len(values) or values.null_count:
                break
            tail.append(len(values[0].values) if width < 0 else width)
            values = values.slice(0, 1).flatten()
        tail += [max(0, n) for n in layout.tail[len(tail) :]]
        known = Layout(tuple(tail), layout.dtype, layout.held)
        rows_of(pieces.piece(int(filled[0])).slice(0, 1), known, 0, where)
        return known


def _is_array(name: str, field: pa.Field) -> bool:
    if is_text(field.type):
        return _IDS.fullmatch(name) is not None
    try:
        layout_of(field, name)
    except BadData:
        return False
    return True


def _pieces(files: list[TableFile], name: str, row_bytes: int) -> Pieces:
    parts = [file.pieces(name, row_bytes) for file in files]
    return parts[0] if len(parts) == 1 else Chained(parts)


def _row_bytes(layout: Layout) -> int:
    size = numpy_dtype(layout.dtype).itemsize
    for width in layout.tail:
        size *= max(1, width)
    return size


def _columns(file: TableFile) -> str:
    return ", ".join(f"{field.name} ({field.type})" for field in file.schema)
