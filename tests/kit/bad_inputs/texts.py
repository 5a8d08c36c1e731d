"""Bad inputs of `ttf data encode`: files of texts, columns, folders of BEIR, usage."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path

from tests.kit.bad_inputs.row import Change, Row, words
from tests.kit.beir_folder import beir

GOOD = "question,answer\nwhat?,that\n"
ENCODES = words("data encode")
OUT = words("--encoder hash --out out")

TEXT_FILES: dict[str, tuple[str, bytes, str, str]] = {
    "empty": ("a.csv", b"", "a.csv is empty", "Check the path"),
    "head alone": ("a.csv", b"question,answer\n", "there is no row", ""),
    "ragged": (
        "a.csv",
        b"question,answer\nwhat?,this, and that\n",
        "line 2 has 3 columns, but the first line has 2",
        "quotation marks",
    ),
    "short": ("a.csv", b"question,answer\nwhat?\n", "line 2 has 1 columns", ""),
    "open quote": (
        "a.csv",
        b'question,answer\nwhat?,"that\nwho?,he\n',
        "line 2: a quotation mark is opened and never closed",
        "Double each",
    ),
    "after a quote": ("a.csv", b'question,answer\n"a"b,c\n', "line 2 cannot be read", ""),
    "latin": (
        "a.csv",
        "question,answer\nwho?,René\n".encode("latin-1"),
        "is not UTF-8 text: near line",
        "--encoding cp1252",
    ),
    "utf-16": ("a.csv", GOOD.encode("utf-16"), "is text in UTF-16", "--encoding utf-16"),
    "empty answer": (
        "a.csv",
        b"question,answer\nwhat?,that\nwho?,  \n",
        "line 3: the document is empty",
        "--skip-empty",
    ),
    "empty question": ("a.csv", b"question,answer\n ,that\n", "line 2: the query is empty", ""),
    "same names": ("a.csv", b"question,question\na,b\n", "two columns with the name", "Rename"),
    "no names": ("a.csv", b"what?,that\nwho?,he\n", "which column is the query", "--query COLUMN"),
    "one column": ("a.csv", b"question\nwhat?\n", "which column is the document", "--document"),
    "two texts": (
        "a.csv",
        b"question,answer,doc_id\na,one,7\nb,two,7\n",
        "'7' stands for two different texts of the documents: 'one' and 'two'",
        "own id",
    ),
    "no id": (
        "a.csv",
        b"question,answer,doc_id\na,one,\n",
        "line 2: the column doc_id has no id",
        "",
    ),
    "not gzip": ("a.csv.gz", b"question,answer\na,b\n", "is not a complete gzip file", ""),
    "half gzip": ("a.csv.gz", gzip.compress(GOOD.encode() * 999)[:40], "not a complete gzip", ""),
    "not json": (
        "a.jsonl",
        b'{"query": "a", "document": "b"}\n{"query": \n',
        "line 2 is not JSON",
        "complete JSON object",
    ),
    "a json list": (
        "a.json",
        b'[\n{"query": "a"}]',
        "line 1 is not JSON",
        "Write an object a line",
    ),
    "json list in a line": ("a.jsonl", b'["a", "b"]\n', "line 1 is a list", "object a line"),
    "a key less": (
        "a.jsonl",
        b'{"query": "a", "document": "b"}\n{"query": "a"}\n',
        "line 2: the document is empty",
        "--skip-empty",
    ),
    "surrogate": (
        "a.jsonl",
        b'{"query": "a", "document": "\\ud800"}\n',
        "line 1: a text has half of a character",
        "uXXXX pairs",
    ),
    "a number for texts": (
        "a.jsonl",
        b'{"query": "a", "document": [1, 2]}\n',
        "line 1: the column document has a int",
        "Name another column",
    ),
    "an object for a query": (
        "a.jsonl",
        b'{"query": {"x": 1}, "document": "b"}\n',
        "line 1: the column query has a dict, not a text",
        "",
    ),
    "no documents": (
        "a.jsonl",
        b'{"query": "a", "document": []}\n',
        "line 1: the list of documents is empty",
        "",
    ),
    "unknown ending": (
        "a.docx",
        b"x",
        "no texts from files with the ending .docx",
        "Known endings",
    ),
    "torn parquet": ("a.parquet", b"PAR1 and no more", "a.parquet cannot be read", "complete"),
}

COLUMNS: dict[str, tuple[str, int, str]] = {
    "misspelt": ("--query questionn", 2, "Did you mean 'question'?"),
    "query and sequence": ("--query question --sequence answer", 2, "cannot be used together"),
    "no list": ("--sequence question", 3, "line 2: the column question must have a list of texts"),
    "no grade": ("--grade answer", 3, "line 2: the column answer has 'that', not a number"),
    "no score": ("--score answer", 3, "not a number"),
}
LISTS: dict[str, tuple[str, str]] = {
    "too few ids": ('["1"]', "1 ids for 2 documents"),
    "too many scores": ('["1", "2"]', "3 numbers for 2 documents"),
}


def _rewrite(name: str, text: str) -> Change:
    return lambda folder: (folder / name).write_text(text)


def _without(name: str) -> Change:
    return lambda folder: (folder / name).unlink()


BEIR: dict[str, tuple[Change, str]] = {
    "unknown document": (
        _rewrite("qrels/train.tsv", "q1\td9\t1\n"),
        "train.tsv line 1 names the document 'd9', which is not in corpus.jsonl",
    ),
    "unknown query": (
        _rewrite("qrels/train.tsv", "q1\td1\t1\nq7\td1\t1\n"),
        "train.tsv line 2 names the query 'q7', which is not in queries.jsonl",
    ),
    "no qrels": (_without("qrels/train.tsv"), "no .tsv file"),
    "no corpus": (
        _without("corpus.jsonl"),
        "corpus.jsonl: there is no such",
    ),
    "no queries": (
        _without("queries.jsonl"),
        "queries.jsonl: there is no",
    ),
    "two columns": (_rewrite("qrels/train.tsv", "q1 d1 1\nq2 d2\n"), "line 2 must be a query id"),
    "a grade in words": (_rewrite("qrels/train.tsv", "a b c\nq1 d1 good\n"), "line 2 must be"),
    "all zero": (_rewrite("qrels/train.tsv", "q1 d1 0\n"), "grade above 0"),
    "no _id": (_rewrite("corpus.jsonl", '{"text": "one"}\n'), 'corpus.jsonl line 1 has no "_id"'),
    "no text": (_rewrite("corpus.jsonl", '{"_id": "d1"}\n'), 'corpus.jsonl line 1 has no "text"'),
    "empty text": (
        _rewrite("corpus.jsonl", '{"_id": "d1", "text": ""}\n'),
        "the document is empty",
    ),
    "an id twice": (
        _rewrite("corpus.jsonl", '{"_id": "d1", "text": "x"}\n{"_id": "d1", "text": "y"}\n'),
        "'d1' stands for two different texts",
    ),
}
# What only all rows together show: the encoder's process has started by then.
LATE = {"two texts", "unknown document", "unknown query", "all zero", "an id twice"}
PATHS: dict[str, tuple[str, int, str]] = {
    "no such file": ("missing.csv", 3, "no such file"),
    "a folder without texts": ("folder", 2, "no texts that ttf reads"),
    "a broken state.json": ("state", 3, "cannot be read"),
    "a folder that is no set": ("unlisted", 3, "state.json cannot be read"),
}
USAGE: dict[str, tuple[str, str]] = {
    "no encoder": ("--encoder hsah", "Did you mean 'hash'?"),
    "no model": ("--encoder hash --model x", "has no model"),
    "option": ("--encoder hash --set dims=3", "Did you mean 'dim'?"),
    "bounds": ("--encoder hash --set dim=1", "encoder.hash.dim"),
    "no value": ("--encoder hash --set dim", "option=value"),
    "share": ("--encoder hash --val-split 2", "not a share"),
    "delimiter": ("--encoder hash --delimiter ::", "one character"),
    "encoding": ("--encoder hash --encoding utf-9", "knows no encoding"),
}


def rows() -> Iterator[Row]:
    for id, (name, data, *says) in TEXT_FILES.items():
        yield Row(
            id=f"texts: {id}",
            change=_content(name, data),
            argv=(*ENCODES, name, *OUT),
            code=2 if id in _OF_USAGE else 3,
            says=tuple(says),
            needs="pyarrow" if name.endswith(".parquet") else "",
            slow=id in LATE,
        )
    for id, (options, code, said) in COLUMNS.items():
        yield Row(
            id=f"columns: {id}",
            change=_content("a.csv", GOOD.encode()),
            argv=(*ENCODES, "a.csv", *words(options), *OUT),
            code=code,
            says=(said,),
        )
    for id, (ids, said) in LISTS.items():
        row = {
            "query": "q",
            "document": ["a", "b"],
            "doc_id": json.loads(ids),
            "s": [1.0, 2.0, 3.0],
        }
        yield Row(
            id=f"columns: {id}",
            change=_content("a.jsonl", json.dumps(row).encode()),
            argv=(*ENCODES, "a.jsonl", "--score", "s", *OUT),
            code=3,
            says=(said,),
        )
    for id, (change, said) in BEIR.items():
        yield Row(
            id=f"BEIR: {id}",
            change=_in_beir(change),
            argv=(*ENCODES, "set", *OUT),
            code=3,
            says=(said,),
            slow=id in LATE,
        )
    for id, (name, code, said) in PATHS.items():
        yield Row(
            id=f"paths: {id}",
            change=_folders,
            argv=(*ENCODES, name, *OUT),
            code=code,
            says=(said,),
            needs="pyarrow",
        )
    for id, (options, said) in USAGE.items():
        yield Row(
            id=f"usage: {id}",
            change=_content("a.csv", GOOD.encode()),
            argv=(*ENCODES, "a.csv", *words(options), "--out", "out"),
            code=2,
            says=(said,),
        )
    yield Row(
        id="usage: the output is the input",
        change=_content("a.csv", GOOD.encode()),
        argv=(*ENCODES, "a.csv", *words("--encoder hash --out a.csv")),
        code=2,
        says=("--out names a folder",),
    )


_OF_USAGE = {"no names", "one column", "unknown ending"}


def _content(name: str, data: bytes) -> Change:
    return lambda folder: (folder / name).write_bytes(data)


def _in_beir(change: Change) -> Change:
    return lambda folder: change(beir(folder / "set"))


def _folders(folder: Path) -> None:
    for name in ("folder", "state", "unlisted"):
        (folder / name).mkdir()
    (folder / "state" / "state.json").write_text("{")
    (folder / "unlisted" / "state.json").write_text("{}")
