"""Every fault of an input of texts is one message: file, row, column, and what to do."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ttf.errors import ConfigError, TtfError
from ttf.text.progress import Reporter
from ttf.tools.encode.collect import Reading
from ttf.tools.encode.plan import read_inputs
from ttf.tools.encode.read.columns import Columns

GOOD = "question,answer\nwhat?,that\n"


def read(path: Path, work: Path, **reading: Any) -> Any:
    work.mkdir(exist_ok=True)
    return read_inputs([path], Reading(**reading), work, Reporter())


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


@pytest.mark.parametrize("case", TEXT_FILES)
def test_a_bad_file_is_told_with_its_place(case: str, tmp_path: Path) -> None:
    name, data, said, hint = TEXT_FILES[case]
    (tmp_path / name).write_bytes(data)
    with pytest.raises(TtfError) as caught:
        read(tmp_path / name, tmp_path / "work")
    assert said in str(caught.value)
    assert hint in caught.value.hint
    assert int(caught.value.exit_code) in (2, 3)
    assert not (tmp_path / "work" / "plan.json").exists()


COLUMNS: dict[str, tuple[dict[str, Any], str]] = {
    "misspelt": ({"query": ("questionn",)}, "Did you mean 'question'?"),
    "query and sequence": (
        {"query": ("question",), "sequence": "answer"},
        "cannot be used together",
    ),
    "no list": ({"sequence": "question"}, "line 2: the column question must have a list of texts"),
    "no grade": ({"grade": "answer"}, "line 2: the column answer has 'that', not a number"),
    "no score": ({"score": "answer"}, "not a number"),
}


@pytest.mark.parametrize("case", COLUMNS)
def test_columns_that_do_not_fit_are_told(case: str, tmp_path: Path) -> None:
    given, said = COLUMNS[case]
    (tmp_path / "a.csv").write_text(GOOD)
    with pytest.raises(TtfError) as caught:
        read(tmp_path / "a.csv", tmp_path / "work", columns=Columns(**given))
    assert said in str(caught.value)


def test_scores_and_ids_must_be_as_many_as_documents(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    row = {"query": "q", "document": ["a", "b"], "doc_id": ["1"], "s": [1.0, 2.0, 3.0]}
    file.write_text(json.dumps(row) + "\n")
    with pytest.raises(TtfError, match="1 ids for 2 documents"):
        read(file, tmp_path / "work")
    file.write_text(json.dumps(row | {"doc_id": ["1", "2"]}) + "\n")
    with pytest.raises(TtfError, match="3 numbers for 2 documents"):
        read(file, tmp_path / "work", columns=Columns(score="s"))


def test_an_unknown_encoding_is_told(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(GOOD)
    with pytest.raises(ConfigError, match="knows no encoding"):
        read(tmp_path / "a.csv", tmp_path / "work", encoding="utf-9")


# --- BEIR ------------------------------------------------------------------------------------


def beir(folder: Path) -> Path:
    (folder / "qrels").mkdir(parents=True)
    corpus = [{"_id": "d1", "title": "T", "text": "one"}, {"_id": "d2", "title": "", "text": "two"}]
    queries = [{"_id": "q1", "text": "first"}, {"_id": "q2", "text": "second"}]
    for name, rows in (("corpus", corpus), ("queries", queries)):
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / f"{name}.jsonl").write_text(lines)
    head = "query-id\tcorpus-id\tscore\n"
    (folder / "qrels" / "train.tsv").write_text(f"{head}q1\td1\t2\nq2\td2\t1\n")
    return folder


def _rewrite(name: str, text: str) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_text(text)


BEIR: dict[str, tuple[Callable[[Path], object], str]] = {
    "unknown document": (
        _rewrite("qrels/train.tsv", "q1\td9\t1\n"),
        "train.tsv line 1 names the document 'd9', which is not in corpus.jsonl",
    ),
    "unknown query": (
        _rewrite("qrels/train.tsv", "q1\td1\t1\nq7\td1\t1\n"),
        "train.tsv line 2 names the query 'q7', which is not in queries.jsonl",
    ),
    "no qrels": (lambda folder: (folder / "qrels" / "train.tsv").unlink(), "no .tsv file"),
    "no corpus": (
        lambda folder: (folder / "corpus.jsonl").unlink(),
        "corpus.jsonl: there is no such",
    ),
    "no queries": (
        lambda folder: (folder / "queries.jsonl").unlink(),
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


@pytest.mark.parametrize("case", BEIR)
def test_a_bad_folder_of_beir_is_told_with_its_place(case: str, tmp_path: Path) -> None:
    change, said = BEIR[case]
    folder = beir(tmp_path / "set")
    change(folder)
    with pytest.raises(TtfError) as caught:
        read(folder, tmp_path / "work")
    assert said in str(caught.value)


@pytest.mark.parametrize("name", ["missing.csv", "folder", "state"])
def test_a_path_without_texts_is_told(name: str, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "state.json").write_text("{")
    with pytest.raises(TtfError, match=r"no such file|no texts that ttf reads|cannot be read"):
        read(tmp_path / name, tmp_path / "work")
