"""What the first rows of the inputs show, told before a large model is loaded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Final

from ttf.errors import BadData
from ttf.tools.encode.collect import Reading
from ttf.tools.encode.read import beir
from ttf.tools.encode.read.examples import examples, first_empty, is_empty, no_row
from ttf.tools.encode.read.inputs import Source, opened, sources

_ROWS: Final = 1000  # Of each file: some milliseconds.


def check_first_rows(inputs: Sequence[Path], reading: Reading) -> None:
    """Raises the first fault. What all rows together show, such as an id of two texts, comes later."""
    tables, folder = sources(inputs)
    rows = _rows_of_tables(tables, reading) if folder is None else _rows_of_beir(folder)
    found = False
    try:
        for where, texts in rows:
            found = True
            what = first_empty(texts)
            if what is not None and not reading.skip_empty:
                raise is_empty(what, where)
    except OSError as error:
        raise BadData(f"{error.filename or inputs[0]} cannot be read: {error.strerror}.") from error
    if not found:
        raise no_row(inputs, all_empty=False)


_Rows = Iterator[tuple[str, Sequence[tuple[str, str]]]]


def _rows_of_tables(tables: Sequence[Source], reading: Reading) -> _Rows:
    for one in tables:
        table = opened(one, reading.encoding, reading.delimiter)
        columns = reading.columns.found_in(table.columns, table.uri)
        for example in islice(examples(table, columns), _ROWS):
            yield example.where, list(example.texts)


def _rows_of_beir(folder: Path) -> _Rows:
    for path in beir.splits(folder).values():
        for one in islice(beir.judgements(path), _ROWS):
            yield one.where, []
    for what, table in (("document", beir.corpus(folder)), ("query", beir.queries(folder))):
        for entry in islice(beir.entries(table), _ROWS):
            # A query that nobody judged may be empty: it is left out.
            yield entry.where, [(what, entry.text)] if what == "document" else []
