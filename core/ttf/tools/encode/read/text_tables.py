"""CSV, TSV and JSON lines, also packed with gzip; every fault is told with its line."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Final, cast

from ttf.errors import BadData, ConfigError
from ttf.rundir.confined import open_named

# Characters. A packed file of a kilobyte can hold a line of a megabyte, and each empty list of JSON or
# short cell in it takes 70 bytes.
_LONGEST_LINE: Final = 12 << 20
_LONGEST_RECORD: Final = 2 * _LONGEST_LINE  # of a table: quoted cells may have many lines
_MOST_COLUMNS: Final = 10_000
_BOMS: Final = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
_FIRST_ROWS: Final = 100  # JSON objects that are looked at for names.


class _TextFile:
    """A file of text that knows how far it was read."""

    place = "line"

    def __init__(self, path: Path, encoding: str) -> None:
        self.uri = str(path)
        self._path = path
        self._encoding = "utf-8-sig" if encoding == "utf-8" else encoding
        self._total = path.stat().st_size
        self._raw: IO[bytes] | None = None
        if not self._total:
            raise BadData(f"{path} is empty.", hint="Check the path.")

    def position(self) -> tuple[int, int]:
        if self._raw is None or self._raw.closed:
            return 0, self._total
        return self._raw.tell(), self._total

    @contextmanager
    def _opened(self) -> Iterator[IO[str]]:
        with open_named(self._path) as raw:
            self._raw = raw
            packed = self._path.suffix == ".gz"
            data: IO[bytes] = cast("IO[bytes]", gzip.GzipFile(fileobj=raw)) if packed else raw
            if not packed and (named := _BOMS.get(raw.read(2))) and self._encoding == "utf-8-sig":
                raise BadData(
                    f"{self.uri} is text in UTF-16, but ttf expects UTF-8.",
                    hint=f"Add --encoding {named}",
                )
            raw.seek(0)
            try:
                with io.TextIOWrapper(data, self._encoding, newline="") as text:
                    yield text
            except UnicodeDecodeError as error:
                raise self._not_text(error) from error
            except (gzip.BadGzipFile, EOFError) as error:
                raise BadData(
                    f"{self.uri} is not a complete gzip file: {error}.", hint="Copy it again."
                ) from error

    def _check_columns(self, count: int) -> None:
        if count > _MOST_COLUMNS:
            raise BadData(
                f"{self.uri} has {count:,} columns, and at most {_MOST_COLUMNS:,} are read.",
                hint="Is it a table of texts? Are the ends of lines missing?",
            )

    def _lines(self, text: IO[str]) -> Iterator[str]:
        number = 0
        while line := text.readline(_LONGEST_LINE):
            number += 1
            if len(line) == _LONGEST_LINE and not line.endswith(("\n", "\r")):
                raise BadData(
                    f"{self.uri} line {number:,} has more than {_LONGEST_LINE:,} characters.",
                    hint="A text of this length is probably not one: is an end of line missing?",
                )
            yield line

    def _not_text(self, error: UnicodeDecodeError) -> BadData:
        byte = error.object[error.start]
        line = self._line() + 1
        return BadData(
            f"{self.uri} is not {self._encoding.removesuffix('-sig').upper()} text: near line {line:,} "
            f"there is the byte 0x{byte:02x}.",
            hint="If a program on Windows wrote it: --encoding cp1252. Otherwise name its encoding.",
        )

    def _line(self) -> int:
        return 0


class CsvTable(_TextFile):
    """The first line has the names of the columns."""

    def __init__(self, path: Path, encoding: str, delimiter: str | None) -> None:
        super().__init__(path, encoding)
        csv.field_size_limit(_LONGEST_LINE)
        self._in_record = 0
        self._reader: Any = None
        tabs = ".tsv" in path.suffixes
        with self._opened() as text:
            first = next(self._lines(text), "")
        self._delimiter = delimiter or ("\t" if tabs else _delimiter(first))
        # TSV files usually have no quoting: a quotation mark is a part of the text.
        self._quoting: Any = csv.QUOTE_NONE if tabs and '"' not in first else csv.QUOTE_MINIMAL
        with self._opened() as text:
            self.columns: Sequence[str] = next(self._records(text), (0, []))[1]
        self._check_header()

    def _check_header(self) -> None:
        self._check_columns(len(self.columns))
        twice = next((name for name, count in Counter(self.columns).items() if count > 1), None)
        if twice is not None:
            raise BadData(
                f"{self.uri} has two columns with the name {twice!r}.",
                hint="Rename one of them in the first line.",
            )

    def _line(self) -> int:
        return self._reader.line_num if self._reader is not None else 0

    def rows(self, names: Sequence[str]) -> Iterator[tuple[int, Sequence[Any]]]:
        at = [self.columns.index(name) for name in names]
        width = len(self.columns)
        with self._opened() as text:
            records = self._records(text)
            next(records, None)
            for line, record in records:
                if len(record) != width:
                    raise self._ragged(line, record)
                yield line, [record[place] for place in at]

    def _records(self, text: IO[str]) -> Iterator[tuple[int, list[str]]]:
        self._reader = csv.reader(
            self._lines_of_records(text),
            delimiter=self._delimiter,
            quoting=self._quoting,
            strict=True,
        )
        begins = 1
        try:
            for record in self._reader:
                self._in_record = 0
                if record:
                    yield begins, record
                begins = self._reader.line_num + 1
        except csv.Error as error:
            raise self._broken(begins, error) from error

    def _lines_of_records(self, text: IO[str]) -> Iterator[str]:
        for line in self._lines(text):
            self._in_record += len(line)
            if self._in_record > _LONGEST_RECORD:
                raise BadData(
                    f"{self.uri} near line {self._line() + 1:,}: a row has more than "
                    f"{_LONGEST_RECORD:,} characters.",
                    hint="Probably a quotation mark is opened there and not closed.",
                )
            yield line

    def _broken(self, line: int, error: csv.Error) -> BadData:
        text = str(error)
        if "unexpected end of data" in text:
            return BadData(
                f"{self.uri} line {line:,}: a quotation mark is opened and never closed.",
                hint="Double each quotation mark inside of a text, or remove this one.",
            )
        if "larger than field limit" in text:
            return BadData(
                f"{self.uri} line {line:,}: a text has more than {_LONGEST_LINE:,} characters.",
                hint="Probably a quotation mark is opened there and not closed.",
            )
        return BadData(f"{self.uri} line {line:,} cannot be read as a table: {text}.")

    def _ragged(self, line: int, record: Sequence[str]) -> BadData:
        shown = "tab" if self._delimiter == "\t" else repr(self._delimiter)
        return BadData(
            f"{self.uri} line {line:,} has {len(record)} columns, but the first line has "
            f"{len(self.columns)} ({', '.join(self.columns)}).",
            hint=f"Put texts that contain the separator ({shown}) into quotation marks.",
        )


def _delimiter(header: str) -> str:
    counts = {mark: header.count(mark) for mark in (",", ";", "\t", "|")}
    return max(counts, key=lambda mark: counts[mark]) if any(counts.values()) else ","


class JsonLines(_TextFile):
    """One JSON object a line."""

    def __init__(self, path: Path, encoding: str) -> None:
        super().__init__(path, encoding)
        self._number = 0
        names: dict[str, None] = {}
        with self._opened() as text:
            for (_, found), _ in zip(self._objects(text), range(_FIRST_ROWS), strict=False):
                names |= dict.fromkeys(found)
                self._check_columns(len(names))
        self.columns: Sequence[str] = list(names)

    def _line(self) -> int:
        return self._number

    def rows(self, names: Sequence[str]) -> Iterator[tuple[int, Sequence[Any]]]:
        with self._opened() as text:
            for line, found in self._objects(text):
                yield line, [found.get(name) for name in names]

    def _objects(self, text: IO[str]) -> Iterator[tuple[int, dict[str, Any]]]:
        self._number = 0
        for number, line in enumerate(self._lines(text), start=1):
            self._number = number
            if not line.strip():
                continue
            try:
                found = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise BadData(
                    f"{self.uri} line {number:,} is not JSON: {error}.", hint=_whole_list(line)
                ) from error
            if not isinstance(found, dict):
                raise BadData(
                    f"{self.uri} line {number:,} is a {type(found).__name__}, but it must be an "
                    'object: {"query": "...", "document": "..."}.',
                    hint=_whole_list(line),
                )
            yield number, found


def _whole_list(line: str) -> str:
    if line.lstrip().startswith("["):
        return (
            "Is the file one list? Write an object a line: "
            'python -c "import json,sys; [print(json.dumps(o)) for o in json.load(sys.stdin)]"'
        )
    return "Each line must be a complete JSON object."


def checked_encoding(name: str) -> str:
    import codecs

    try:
        return codecs.lookup(name).name
    except LookupError:
        raise ConfigError(
            f"--encoding {name}: Python knows no encoding of this name.",
            hint="For example utf-8, utf-16, cp1252, latin-1, gb18030, shift_jis.",
        ) from None
