"""Reads all inputs once: numbers queries, documents and passages, and who belongs to whom."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np

from ttf.errors import BadData
from ttf.text.shell import quoted
from ttf.tools.encode.collection import Collected, Collection
from ttf.tools.encode.distinct import KeyWriter, first_equal, key_of
from ttf.tools.encode.links import LINK, Links, LinkWriter
from ttf.tools.encode.read import beir
from ttf.tools.encode.read.columns import Columns
from ttf.tools.encode.read.examples import (
    Example,
    examples,
    first_empty,
    is_empty,
    no_grade,
    no_row,
)
from ttf.tools.encode.read.inputs import Source, opened
from ttf.tools.encode.read.table import Table
from ttf.tools.encode.read.text_tables import JsonLines
from ttf.tools.encode.sequences import Sequences, SequenceWriter

Progress = Callable[[int, int], None]
Split = Literal["train", "val", "test"]
SPLITS: Final[tuple[Split, ...]] = ("train", "val", "test")
_TELL_EVERY: Final = 512


@dataclass(kw_only=True)
class Read:
    """What was read. `queries` None: the queries are `sequences` of `passages`."""

    documents: Collected
    queries: Collected | None
    passages: Collected | None
    sequences: Sequences | None
    links: Links
    skipped: int = 0
    columns: dict[str, Any] = field(default_factory=dict)
    unused: Sequence[str] = ()  # Columns that have no role.
    refused_grades: int = 0

    @property
    def kinds(self) -> list[tuple[Collected, Literal["query", "document"]]]:
        """What is to be encoded, and as what."""
        found: list[tuple[Collected, Literal["query", "document"]]] = [(self.documents, "document")]
        found += [(self.queries, "query")] if self.queries is not None else []
        return found + ([(self.passages, "query")] if self.passages is not None else [])


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How inputs are read."""

    columns: Columns = field(default_factory=Columns)
    encoding: str = "utf-8"
    delimiter: str | None = None
    skip_empty: bool = False


class _Collecting:
    """What is written while it is read; `files` closes it, whatever happens."""

    def __init__(self, folder: Path, reading: Reading, files: contextlib.ExitStack) -> None:
        self.folder = folder
        self.reading = reading
        self.skipped = 0
        self.refused_grades = 0
        self.links = LinkWriter(folder / "links.bin")
        files.callback(self.links.close)
        self._files = files

    def collection(self, name: str) -> Collection:
        made = Collection(self.folder, name)
        self._files.callback(made.close)
        return made

    def sequences(self) -> SequenceWriter:
        made = SequenceWriter(self.folder)
        self._files.callback(made.close)
        return made

    def refuses_empty(self, texts: Iterable[tuple[str, str]], where: str) -> bool:
        """True if the row must be left out; `texts` are (what, text)."""
        what = first_empty(texts)
        if what is None:
            return False
        if self.reading.skip_empty:
            self.skipped += 1
            return True
        raise is_empty(what, where)


def collect_tables(
    sources: Sequence[Source],
    folder: Path,
    reading: Reading,
    progress: Progress,
    files: contextlib.ExitStack,
) -> Read:
    """Raises BadData or ConfigError for the first fault."""
    tables = [opened(one, reading.encoding, reading.delimiter) for one in sources]
    columns = [reading.columns.found_in(table.columns, table.uri) for table in tables]
    state = _Collecting(folder, reading, files)
    documents = state.collection("documents")
    asked = reading.columns.sequence is not None
    sequences = state.sequences() if asked else None
    texts = state.collection("passages" if asked else "queries")
    totals = [table.position()[1] for table in tables]
    for number, (source, table, found) in enumerate(zip(sources, tables, columns, strict=True)):
        split = SPLITS.index("val" if source.split == "val" else "train")
        for count, example in enumerate(examples(table, found)):
            _add_example(state, example, split, documents, texts, sequences)
            if count % _TELL_EVERY == 0:
                progress(sum(totals[:number]) + table.position()[0], sum(totals))
    if not state.links.count:
        if state.refused_grades:
            raise no_grade(", ".join(str(one.path) for one in sources))
        raise no_row((one.path for one in sources), all_empty=bool(state.skipped))
    kept = texts.finish(progress)
    return Read(
        documents=documents.finish(progress),
        queries=None if asked else kept,
        passages=kept if asked else None,
        sequences=sequences.finish() if sequences is not None else None,
        links=state.links.finish(),
        skipped=state.skipped,
        columns={name: value for name, value in vars(columns[0]).items() if value},
        unused=_unused(tables, columns),
        refused_grades=state.refused_grades,
    )


def _unused(tables: Sequence[Table], columns: Sequence[Columns]) -> tuple[str, ...]:
    names = [
        name
        for table, found in zip(tables, columns, strict=True)
        for name in found.without_role(table.columns)
    ]
    return tuple(dict.fromkeys(names))


def _add_example(
    state: _Collecting,
    example: Example,
    split: int,
    documents: Collection,
    texts: Collection,
    sequences: SequenceWriter | None,
) -> None:
    if state.refuses_empty(example.texts, example.where):
        return
    if sequences is not None:
        steps = [texts.add(text, example.where) for text in example.sequence or ()]
        query = sequences.add(steps)
    else:
        query = texts.add(example.query or "", example.where, example.query_id)
    for negative, judged in ((0, example.positives), (1, example.negatives)):
        for one in judged:
            document = documents.add(one.text, example.where, one.id)
            if one.grade > 0:
                state.links.add(query, document, one.grade, one.score, split, negative)
            else:  # As in BEIR: it is a document, but nobody's positive.
                state.refused_grades += 1


# --- BEIR ------------------------------------------------------------------------------------


def collect_beir(
    folder: Path,
    work: Path,
    reading: Reading,
    progress: Progress,
    files: contextlib.ExitStack,
) -> Read:
    """The same for a folder of BEIR. Queries that no file of qrels/ names are left out."""
    state = _Collecting(work, reading, files)
    qrels = beir.splits(folder)
    judged = {
        key_of(one.query_id.encode()) for path in qrels.values() for one in beir.judgements(path)
    }
    corpus = state.collection("documents")
    queries = state.collection("queries")
    with _Ids(work, "corpus") as documents_by_id, _Ids(work, "asked") as queries_by_id:
        for entry in _told(beir.corpus(folder), progress):
            if not state.refuses_empty([("document", entry.text)], entry.where):
                documents_by_id.add(entry.id, entry.where)
                corpus.add(entry.text, entry.where, entry.id)
        for entry in _told(beir.queries(folder), progress):
            if key_of(entry.id.encode()) not in judged:
                continue
            if not state.refuses_empty([("query", entry.text)], entry.where):
                queries_by_id.add(entry.id, entry.where)
                queries.add(entry.text, entry.where, entry.id)
        documents = corpus.finish(progress)
        refused = _add_judgements(state, qrels, documents_by_id, queries_by_id)
    if not state.links.count:
        raise no_grade(str(folder))
    return Read(
        documents=documents,
        queries=queries.finish(progress),
        passages=None,
        sequences=None,
        links=state.links.finish(),
        skipped=state.skipped,
        columns={"qrels": {split: path.name for split, path in qrels.items()}},
        refused_grades=refused,
    )


def _told(table: JsonLines, progress: Progress) -> Iterator[beir.Entry]:
    for count, entry in enumerate(beir.entries(table)):
        if count % _TELL_EVERY == 0:
            progress(*table.position())
        yield entry


class _Ids(contextlib.AbstractContextManager["_Ids"]):
    """Ids of a file, then references to them: all are resolved at once."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder, self._name = folder, name
        self._keys = KeyWriter(folder / f"{name}-by-id.keys")
        self.known = 0

    def add(self, name: str, where: str) -> None:
        self._keys.append(key_of(name.encode("utf-8", "replace")))
        self.known += 1

    def refer(self, name: str) -> None:
        self._keys.append(key_of(name.encode("utf-8", "replace")))

    def resolved(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """The number of each reference's entry; one that is not below `known` is unknown."""
        self._keys.close()
        found = first_equal(self._keys.path, self._folder / f"{self._name}-by-id.firsts")
        return found[self.known :]

    def __exit__(self, *_: object) -> None:
        self._keys.close()


def _add_judgements(
    state: _Collecting, files: dict[str, Path], documents: _Ids, queries: _Ids
) -> int:
    """Returns how many have a grade of 0 or less: documents that are not relevant."""
    refused = 0
    for path in files.values():
        for one in beir.judgements(path):
            documents.refer(one.document_id)
            queries.refer(one.query_id)
    document_of, query_of = documents.resolved(), queries.resolved()
    number = 0
    for split, path in files.items():
        for one in beir.judgements(path):
            document, query = int(document_of[number]), int(query_of[number])
            number += 1
            missing = (
                ("document", one.document_id, "corpus.jsonl")
                if document >= documents.known
                else ("query", one.query_id, "queries.jsonl")
            )
            if document >= documents.known or query >= queries.known:
                if state.reading.skip_empty and state.skipped:
                    state.skipped += 1
                    continue
                raise BadData(
                    f"{one.where} names the {missing[0]} {missing[1]!r}, which is not in "
                    f"{missing[2]}.",
                    hint=f"Do {quoted(path)} and {missing[2]} belong to the same data set?",
                )
            if one.grade <= 0:
                refused += 1
                continue
            state.links.add(
                query, document, one.grade, float("nan"), SPLITS.index(_split(split)), 0
            )
    return refused


def _split(name: str) -> Split:
    return "val" if name == "val" else "test" if name == "test" else "train"


__all__ = ["LINK", "SPLITS", "Read", "Reading", "collect_beir", "collect_tables"]
