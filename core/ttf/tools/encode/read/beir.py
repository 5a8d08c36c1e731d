"""A folder of BEIR: corpus.jsonl, queries.jsonl and qrels/SPLIT.tsv; everything refers by ids."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ttf.errors import BadData, DataMissing
from ttf.rundir.confined import open_named
from ttf.tools.encode.read.inputs import CORPUS, QRELS, QUERIES
from ttf.tools.encode.read.text_tables import JsonLines

_TRAIN: Final = "train"
_VAL: Final = ("dev", "val", "validation")
_TEST: Final = "test"
_LONGEST_LINE: Final = 1 << 20


@dataclass(slots=True)
class Entry:
    """A line of corpus.jsonl or queries.jsonl."""

    where: str
    id: str
    text: str


@dataclass(slots=True)
class Judgement:
    """A line of a file in qrels/."""

    where: str
    query_id: str
    document_id: str
    grade: float


def splits(folder: Path) -> dict[str, Path]:
    """The file of each split: "train", "val", "test". A folder without train.tsv offers its only
    split as "train"."""
    files = {path.stem.lower(): path for path in sorted((folder / QRELS).glob("*.tsv"))}
    if not files:
        raise DataMissing(
            f"{folder / QRELS} has no .tsv file, so no query has a document.",
            hint=f"A folder of BEIR has {CORPUS}, {QUERIES} and {QRELS}/train.tsv or test.tsv.",
        )
    found = {}
    if _TRAIN in files:
        found["train"] = files[_TRAIN]
    val = next((name for name in _VAL if name in files), None)
    if val is not None:
        found["val" if found else "train"] = files[val]
    if _TEST in files:
        found["test" if found else "train"] = files[_TEST]
    if not found:
        found["train"] = next(iter(files.values()))
    return found


def corpus(folder: Path) -> JsonLines:
    return _lines(folder / CORPUS)


def queries(folder: Path) -> JsonLines:
    return _lines(folder / QUERIES)


def _lines(path: Path) -> JsonLines:
    if not path.is_file():
        raise DataMissing(
            f"{path}: there is no such file.",
            hint=f"A folder of BEIR has {CORPUS}, {QUERIES} and {QRELS}/.",
        )
    return JsonLines(path, "utf-8")


def entries(table: JsonLines) -> Iterator[Entry]:
    """The title of a document stands before its text."""
    for line, (name, title, text) in table.rows(["_id", "title", "text"]):
        where = f"{table.uri} line {line:,}"
        if name is None or not isinstance(text, str):
            lacking = "_id" if name is None else "text"
            raise BadData(
                f'{where} has no "{lacking}".',
                hint='Each line must be {"_id": "...", "text": "..."}.',
            )
        yield Entry(where, str(name), f"{_text(title)} {text}".strip())


def _text(value: Any) -> str:
    return value.strip() if isinstance(value, str) else ""


def judgements(path: Path) -> Iterator[Judgement]:
    """The first line may be a header. Three columns as BEIR, or the four of TREC."""
    with open_named(path) as file:
        for number, raw in enumerate(iter(lambda: file.readline(_LONGEST_LINE), b""), start=1):
            where = f"{path} line {number:,}"
            if len(raw) == _LONGEST_LINE:
                raise BadData(f"{where} has more than {_LONGEST_LINE:,} bytes.")
            try:
                words = raw.decode("utf-8-sig" if number == 1 else "utf-8").split()
            except UnicodeDecodeError as error:
                raise BadData(f"{where} is not UTF-8 text.") from error
            if not words:
                continue
            grade = _number(words[-1])
            if number == 1 and grade is None:
                continue
            if len(words) not in (3, 4) or grade is None:
                raise BadData(
                    f"{where} must be a query id, a document id and a grade, but it is: "
                    f"{' '.join(words)[:80]!r}."
                )
            yield Judgement(where, words[0], words[-2], grade)


def _number(word: str) -> float | None:
    try:
        return float(word)
    except ValueError:
        return None
