"""A row of a table as an example: a query, its documents, and what is known of them."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ttf.errors import BadData
from ttf.tools.encode.read.columns import Columns
from ttf.tools.encode.read.table import Table

_TEXT_KEYS: Final = ("text", "contents", "content", "body", "passage", "document")
_ID_KEYS: Final = ("docid", "_id", "id", "doc_id", "pid")


@dataclass(slots=True)
class Judged:
    """A document of an example. Score: of a teacher; grade: how relevant a person found it."""

    text: str
    id: str | None = None
    grade: float = 1.0
    score: float = math.nan


@dataclass(slots=True)
class Example:
    where: str
    query: str | None = None
    sequence: list[str] | None = None
    query_id: str | None = None
    positives: list[Judged] = field(default_factory=list)
    negatives: list[Judged] = field(default_factory=list)

    @property
    def texts(self) -> Iterator[tuple[str, str]]:
        """(what it is, text) of all that must not be empty."""
        for asked in self.sequence or [self.query or ""]:
            yield "query", asked
        for one in (*self.positives, *self.negatives):
            yield "document", one.text
        if not self.positives:
            yield "list of documents", ""


def examples(table: Table, columns: Columns) -> Iterator[Example]:
    """`columns`: as `Columns.found_in` made them for this table."""
    names: list[str] = []

    def places(*wanted: str | None) -> list[int]:
        found = []
        for name in filter(None, wanted):
            if name not in names:
                names.append(name)
            found.append(names.index(name))
        return found

    query, document = places(*columns.query), places(*columns.document)
    negative, sequence = places(*columns.negative), places(columns.sequence)
    query_id, document_id = places(columns.query_id), places(columns.document_id)
    grade, score = places(columns.grade), places(columns.score)
    negative_score = places(columns.negative_score)
    for place, values in table.rows(names):
        row = _Row(f"{table.uri} {table.place} {place:,}", values, names)
        made = Example(row.where)
        if sequence:
            made.sequence = row.passages(sequence[0])
        else:
            made.query = row.text(query)
        made.query_id = row.id(query_id)
        made.positives = row.documents(document, "positive")
        row.set_ids(made.positives, document_id)
        row.set_numbers(made.positives, grade, "grade")
        made.negatives = [one for at in negative for one in row.documents([at], "negative")]
        scores = row.numbers(score)
        if len(scores) == len(made.positives) + len(made.negatives) and not negative_score:
            row.assign([*made.positives, *made.negatives], scores, "score", score)
        else:
            row.assign(made.positives, scores, "score", score)
        row.set_numbers(made.negatives, negative_score, "score")
        yield made


class _Row:
    """Values of a row by their place; every fault names the row and the column."""

    def __init__(self, where: str, values: Sequence[Any], names: Sequence[str]) -> None:
        self.where, self._values, self._names = where, values, names

    def _bad(self, at: int, what: str, hint: str) -> BadData:
        return BadData(f"{self.where}: the column {self._names[at]} {what}.", hint=hint)

    def text(self, places: Sequence[int]) -> str:
        return " ".join(filter(None, (self._one_text(at) for at in places)))

    def _one_text(self, at: int) -> str:
        value = self._values[at]
        if value is None:
            return ""
        if isinstance(value, str):
            return value.strip()
        if isinstance(value, int | float) and not isinstance(value, bool):
            return str(value)
        raise self._bad(at, f"has a {type(value).__name__}, not a text", "Name another column.")

    def id(self, places: Sequence[int]) -> str | None:
        if not places:
            return None
        value = self._values[places[0]]
        if value is None or value == "":
            raise self._bad(places[0], "has no id", "Each row needs one, or name no column of ids.")
        return str(value)

    def passages(self, at: int) -> list[str]:
        found = self._listed(at)
        if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
            hint = 'In a CSV file a cell holds a JSON list: ["first passage", "second passage"]'
            raise self._bad(at, "must have a list of texts", hint)
        return [one.strip() for one in found]

    def _listed(self, at: int) -> Any:
        value = self._values[at]
        if isinstance(value, str) and value.lstrip().startswith("["):
            try:
                return json.loads(value)
            except (ValueError, RecursionError):
                return value
        return value

    def documents(self, places: Sequence[int], what: str) -> list[Judged]:
        if len(places) != 1:
            return [Judged(self.text(places))]
        value = self._values[places[0]]
        if isinstance(value, str):
            # A list as JSON, in a cell of a CSV file; a text may begin with a bracket as well.
            listed = self._listed(places[0])
            value = listed if isinstance(listed, list) and _are_documents(listed) else value
        if value is None or isinstance(value, str | int | float):
            text = self._one_text(places[0])
            return [Judged(text)] if text or what == "positive" else []
        items = value if isinstance(value, list) else [value]
        return [self._document(places[0], one) for one in items]

    def _document(self, at: int, value: Any) -> Judged:
        if isinstance(value, str):
            return Judged(value.strip())
        if isinstance(value, Mapping):
            text = next((str(value[key]) for key in _TEXT_KEYS if value.get(key)), "")
            title = str(value.get("title") or "")
            name = next((str(value[key]) for key in _ID_KEYS if value.get(key) is not None), None)
            return Judged(f"{title} {text}".strip(), name)
        kind = type(value).__name__
        raise self._bad(at, f"has a {kind}, not a text or a list of texts", "Name another column.")

    def set_ids(self, documents: Sequence[Judged], places: Sequence[int]) -> None:
        if not places:
            return
        value = self._listed(places[0])
        ids = value if isinstance(value, list) else [self.id(places)]
        if len(ids) != len(documents):
            hint = "Each document needs one id."
            raise self._bad(places[0], f"has {len(ids)} ids for {len(documents)} documents", hint)
        for document, name in zip(documents, ids, strict=True):
            document.id = str(name)

    def numbers(self, places: Sequence[int]) -> list[float]:
        if not places:
            return []
        value = self._listed(places[0])
        try:
            found = [float(one) for one in (value if isinstance(value, list) else [value])]
        except (TypeError, ValueError):
            found = [math.nan]
        if not all(map(math.isfinite, found)):
            shown = str(value)[:40]
            raise self._bad(places[0], f"has {shown!r}, not a number", "Write numbers such as 2.5.")
        return found

    def set_numbers(self, to: Sequence[Judged], places: Sequence[int], field: str) -> None:
        self.assign(to, self.numbers(places), field, places)

    def assign(
        self, to: Sequence[Judged], numbers: Sequence[float], field: str, places: Sequence[int]
    ) -> None:
        if not places:
            return
        if len(numbers) != len(to):
            what = f"has {len(numbers)} numbers for {len(to)} documents"
            raise self._bad(places[0], what, "Each document needs one number.")
        for document, number in zip(to, numbers, strict=True):
            setattr(document, field, number)


def first_empty(texts: Iterable[tuple[str, str]]) -> str | None:
    """What the first text is that is empty."""
    return next((what for what, text in texts if not text.strip()), None)


def is_empty(what: str, where: str) -> BadData:
    return BadData(
        f"{where}: the {what} is empty.",
        hint="Remove such rows, or leave them out with --skip-empty.",
    )


def no_row(paths: Iterable[Any], *, all_empty: bool) -> BadData:
    return BadData(
        f"{', '.join(map(str, paths))}: there is no row with a query and a document.",
        hint="All rows are empty." if all_empty else "Check the file with a text editor.",
    )


def no_grade(where: str) -> BadData:
    return BadData(
        f"{where}: no query has a document with a grade above 0.",
        hint="A grade says how relevant a document is: 0 for one that is not.",
    )


def _are_documents(values: Sequence[Any]) -> bool:
    return bool(values) and all(isinstance(one, str | Mapping) for one in values)
