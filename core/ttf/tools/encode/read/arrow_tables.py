"""Parquet files and data sets that `datasets.save_to_disk` wrote; pyarrow reads both."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from ttf.data.arrow_messages import ArrowBatch, arrow_batches
from ttf.data.parquet_pages import ParquetPages
from ttf.errors import BadData, PluginUnavailable, TtfError
from ttf.rundir.confined import open_named, read_named_json
from ttf.tools.encode.read.arrow_rows import python_rows

_ROWS: Final = 4096
_TEXTS: Final = ("UTF8", "ENUM", "JSON", "NONE")
_MUCH: Final = 256 << 20
_MOST_TIMES: Final = 50
_STATE: Final = "state.json"
_DICT: Final = "dataset_dict.json"


def need_pyarrow(what: str) -> None:
    if importlib.util.find_spec("pyarrow") is None:
        raise PluginUnavailable(
            f"{what} needs pyarrow, which is not installed.", hint='pip install "twotower[text]"'
        )


class ParquetTable:
    """One file, or all files of a folder, by name."""

    place = "row"

    def __init__(self, path: Path) -> None:
        need_pyarrow(str(path))
        self.uri = str(path)
        self._paths = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
        self._files = [_opened(one, _as_dictionaries) for one in self._paths]
        self.columns: Sequence[str] = list(self._files[0].schema_arrow.names)
        for one, file in zip(self._paths, self._files, strict=True):
            if list(file.schema_arrow.names) != list(self.columns):
                raise BadData(
                    f"{one} has the columns {', '.join(file.schema_arrow.names)}, but "
                    f"{self._paths[0]} has {', '.join(self.columns)}.",
                    hint="Files that are read together must have the same columns.",
                )
        self._total = sum(file.metadata.num_rows for file in self._files)
        self._done = 0

    def position(self) -> tuple[int, int]:
        return self._done, self._total

    def rows(self, names: Sequence[str]) -> Iterator[tuple[int, Sequence[Any]]]:
        self._done = 0
        for path, file in zip(self._paths, self._files, strict=True):
            self.uri, before = str(path), self._done  # a fault is told with its file
            wanted = sorted(set(names))
            with open_named(path) as raw:
                sizes = ParquetPages(path, raw, file.metadata)
                rows = min(sizes.rows_at_once(name, _ROWS) for name in wanted)
            batches = file.iter_batches(batch_size=rows, columns=wanted)
            for batch in _guarded(batches, path):
                for values in _values(batch, names, path):
                    self._done += 1
                    yield self._done - before, values


def _as_dictionaries(path: str) -> Any:
    """Equal texts are then held once, however many rows name them."""
    from pyarrow import parquet

    schema = parquet.ParquetFile(path).schema
    columns = map(schema.column, range(len(schema)))
    texts = [
        column.path
        for column in columns
        if column.physical_type == "BYTE_ARRAY" and column.converted_type in _TEXTS
    ]
    return parquet.ParquetFile(path, read_dictionary=texts)


class ArrowFolder:
    """A split of a data set on the disk: Arrow streams, listed in state.json."""

    place = "row"

    def __init__(self, folder: Path) -> None:
        need_pyarrow(str(folder))
        self.uri = str(folder)
        try:
            listed = read_named_json(folder / _STATE)
            names = [str(one["filename"]) for one in listed["_data_files"]]
            selected = bool(listed.get("_indices_data_files"))
        except (OSError, TtfError, LookupError, TypeError, AttributeError) as error:
            raise BadData(
                f"{folder / _STATE} cannot be read: {error}.",
                hint="Save the data set again: dataset.save_to_disk(FOLDER)",
            ) from error
        if selected:
            raise BadData(
                f"{folder} has a selection of rows that only the library datasets can read.",
                hint="Write it out first: dataset.flatten_indices().save_to_disk(FOLDER)",
            )
        self._paths = [folder / Path(name).name for name in names]
        missing = [path for path in self._paths if not path.is_file()]
        if missing or not names:
            raise BadData(
                f"{missing[0] if missing else folder}: the file of the data set is missing.",
                hint="Copy the whole folder again.",
            )
        self._total = sum(path.stat().st_size for path in self._paths)
        self._before = 0
        self._source: Any = None
        with self._stream(self._paths[0]) as stream:
            self.columns: Sequence[str] = list(stream.schema.names)

    def _stream(self, path: Path) -> Any:
        import pyarrow as arrow

        with open_named(path) as file:
            for batch in arrow_batches(file, path):
                _refuse_if_much(batch, path)
        self._source = _opened(path, arrow.OSFile)
        return _opened(path, lambda _: arrow.ipc.open_stream(self._source))

    def position(self) -> tuple[int, int]:
        here = 0 if self._source is None or self._source.closed else self._source.tell()
        return self._before + here, self._total

    def rows(self, names: Sequence[str]) -> Iterator[tuple[int, Sequence[Any]]]:
        number, self._before = 0, 0
        for path in self._paths:
            with self._stream(path) as stream:
                for batch in _guarded(stream, path):
                    for values in _values(batch, names, path):
                        number += 1
                        yield number, values
            self._before += path.stat().st_size


def _refuse_if_much(batch: ArrowBatch, path: Path) -> None:
    if batch.unpacked > max(_MUCH, _MOST_TIMES * batch.packed):
        raise BadData(
            f"{path}: a batch of {batch.packed:,} bytes unpacks to {batch.unpacked / 1e9:,.1f} GB, which "
            "no real texts do.",
            hint="If you trust the file, write the data set again: dataset.save_to_disk(FOLDER)",
        )


def _values(batch: Any, names: Sequence[str], path: Path) -> Iterator[tuple[Any, ...]]:
    import pyarrow as arrow

    try:
        yield from python_rows(batch, names, str(path))
    except arrow.ArrowException as error:
        raise _broken(path, error) from error


def is_saved_data_set(folder: Path) -> bool:
    return (folder / _STATE).is_file()


def splits_of(folder: Path) -> list[str]:
    """Of a DatasetDict; [] for another folder."""
    try:
        return [str(name) for name in read_named_json(folder / _DICT)["splits"]]
    except (OSError, TtfError, LookupError, TypeError):
        return []


def _opened(path: Path, open_it: Any) -> Any:
    import pyarrow as arrow

    try:
        return open_it(str(path))
    except (arrow.ArrowException, OSError) as error:
        raise _broken(path, error) from error


def _guarded(batches: Any, path: Path) -> Iterator[Any]:
    import pyarrow as arrow

    try:
        yield from batches
    except (arrow.ArrowException, OSError) as error:
        raise _broken(path, error) from error


def _broken(path: Path, error: Exception) -> BadData:
    text = " ".join(str(error).split())[:300]
    return BadData(
        f"{path} cannot be read: {text}", hint="Is the file complete? Copy or write it again."
    )
