"""What lies at a path: a table, a data set of the Hub, or a folder of BEIR."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ttf.errors import BadData, ConfigError, DataMissing
from ttf.tools.encode.read.arrow_tables import (
    ArrowFolder,
    ParquetTable,
    is_saved_data_set,
    splits_of,
)
from ttf.tools.encode.read.table import Table
from ttf.tools.encode.read.text_tables import CsvTable, JsonLines, checked_encoding

_CSV: Final = (".csv", ".tsv", ".csv.gz", ".tsv.gz")
_JSON: Final = (".jsonl", ".ndjson", ".json", ".jsonl.gz", ".ndjson.gz")
_PARQUET: Final = (".parquet", ".pq")
CORPUS: Final = "corpus.jsonl"
QUERIES: Final = "queries.jsonl"
QRELS: Final = "qrels"
_TRAIN_NAMES: Final = ("train",)
_VAL_NAMES: Final = ("val", "validation", "dev", "test")


@dataclass(frozen=True, kw_only=True)
class Source:
    """A table, and which pairs it has: "train", to be split, or "val"."""

    path: Path
    split: str = "train"


def sources(inputs: Sequence[Path]) -> tuple[list[Source], Path | None]:
    """Tables, or one folder of BEIR. Raises DataMissing or ConfigError."""
    for path in inputs:
        if not path.exists():
            raise DataMissing(f"{path}: there is no such file or folder.", hint="Check the path.")
        if not (path.is_dir() or path.is_file()):
            raise ConfigError(f"{path} is a device or a pipe.", hint="Write the texts to a file.")
    beir = [path for path in inputs if is_beir(path)]
    if beir:
        if len(inputs) > 1:
            raise ConfigError(
                f"{beir[0]} is a folder of BEIR, which is read alone.",
                hint="Run the command once for each input, with another --out.",
            )
        return [], beir[0]
    return [one for path in inputs for one in _of_path(path)], None


def is_beir(path: Path) -> bool:
    """Any of its files says so: a missing one is told later, by its name."""
    return path.is_dir() and ((path / CORPUS).exists() or (path / QRELS).is_dir())


def _of_path(path: Path) -> list[Source]:
    if not path.is_dir():
        return [Source(path=path)]
    named = splits_of(path)
    if named:
        return _splits(path, named)
    if is_saved_data_set(path):
        return [Source(path=path)]
    files = _files_of(path)
    if not files:
        raise ConfigError(
            f"The folder {path} has no texts that ttf reads: it is no folder of BEIR ({CORPUS}), no "
            "data set of datasets.save_to_disk, and has no .parquet files.",
            hint="Name the files themselves, for example FOLDER/*.csv.",
        )
    splits = {file.name: _split_of_name(file.name) for file in files}
    if "val" in splits.values() and "train" in splits.values():
        return [Source(path=file, split=splits[file.name]) for file in files]
    return [Source(path=path)]


def _files_of(path: Path) -> list[Path]:
    """The Parquet files of a folder; a file itself."""
    if not path.is_dir():
        return [path]
    return sorted(file for file in path.iterdir() if file.name.lower().endswith(_PARQUET))


def _splits(path: Path, named: Sequence[str]) -> list[Source]:
    train = next((name for name in _TRAIN_NAMES if name in named), named[0])
    found = [Source(path=path / train)]
    val = next((name for name in _VAL_NAMES if name in named and name != train), None)
    return found if val is None else [*found, Source(path=path / val, split="val")]


def _split_of_name(name: str) -> str:
    stem = name.lower().partition("-")[0].partition(".")[0]
    return "val" if stem in _VAL_NAMES else "train"


def opened(source: Source, encoding: str, delimiter: str | None) -> Table:
    path = source.path
    name = path.name.lower()
    for file in _files_of(path):
        if not file.is_file():  # to open a pipe waits for ever
            raise BadData(f"{file} is no regular file.", hint="Write the texts to a file.")
    try:
        if path.is_dir() and is_saved_data_set(path):
            return ArrowFolder(path)
        if path.is_dir() or name.endswith(_PARQUET):
            return ParquetTable(path)
        if name.endswith(_CSV):
            return CsvTable(path, checked_encoding(encoding), delimiter)
        if name.endswith(_JSON):
            return JsonLines(path, checked_encoding(encoding))
    except OSError as error:
        raise BadData(f"{path} cannot be read: {error.strerror or error}.") from error
    known = ", ".join((*_CSV, *_JSON, *_PARQUET))
    raise ConfigError(
        f"{path}: ttf reads no texts from files with the ending {path.suffix or '(none)'}.",
        hint=f"Known endings: {known}; or a folder of BEIR, or of datasets.save_to_disk.",
    )
