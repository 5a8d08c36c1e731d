"""What is read of each kind of input: rows of documents, who belongs to whom, grades, negatives."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.kit.beir_folder import beir

from ttf.errors import BadData, TtfError
from ttf.text.progress import Reporter
from ttf.tools.encode import distinct
from ttf.tools.encode.collect import Read, Reading
from ttf.tools.encode.distinct import KeyWriter, first_equal, key_of
from ttf.tools.encode.plan import read_inputs
from ttf.tools.encode.read import text_tables
from ttf.tools.encode.read.columns import Columns, told_unused
from ttf.tools.encode.split import split_pairs

CSV = "question,answer\nq one,same\nq two,same\nq three,other\nq one,other\n"


def read(path: Path, **reading: Any) -> Read:
    work = path.parent / "work"
    work.mkdir(exist_ok=True)
    return read_inputs([path], Reading(**reading), work, Reporter())


def documents(found: Read) -> list[str]:
    return found.documents.texts.read(0, found.documents.count)


def test_equal_documents_are_one_row_and_a_query_may_have_several(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(CSV)
    found = read(tmp_path / "a.csv")
    assert documents(found) == ["same", "other"]
    assert found.queries is not None
    assert found.queries.texts.read(0, 3) == ["q one", "q two", "q three"]
    part = split_pairs(found, 0, 0).parts["train"]
    assert part.positives.tolist() == [[0, 1], [0, -1], [1, -1]]
    assert part.negatives is None and part.scores is None


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.tsv", CSV.replace(",", "\t")),
        ("a.csv", CSV.replace(",", ";")),
        ("a.csv", "\ufeff" + CSV),
        ("a.csv", CSV.replace("\n", "\r\n")),
        ("a.tsv", 'question\tanswer\nthe "word"\t"quoted" text\n'),
    ],
)
def test_other_separators_marks_and_line_ends_are_read(
    name: str, text: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_text(text, newline="")
    found = documents(read(tmp_path / name))
    assert found == (['"quoted" text'] if "quoted" in text else ["same", "other"])


def test_a_file_of_another_encoding_is_read_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes("question,answer\nwho?,René\n".encode("cp1252"))
    assert documents(read(tmp_path / "a.csv", encoding="cp1252")) == ["René"]


def test_parquet_and_a_saved_data_set_give_what_the_csv_gives(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    rows = [line.split(",") for line in CSV.splitlines()[1:]]
    table = arrow.table({"question": [q for q, _ in rows], "answer": [a for _, a in rows]})
    parquet.write_table(table, tmp_path / "a.parquet", row_group_size=2)
    saved = tmp_path / "set"
    for split in ("train", "test"):
        (saved / split).mkdir(parents=True)
        place = str(saved / split / "data-0.arrow")
        with arrow.OSFile(place, "wb") as file, arrow.ipc.new_stream(file, table.schema) as writer:
            writer.write_table(table)
        state = {"_data_files": [{"filename": "data-0.arrow"}]}
        (saved / split / "state.json").write_text(json.dumps(state))
    (saved / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    (tmp_path / "a.csv").write_text(CSV)
    expected = read(tmp_path / "a.csv").documents.digest
    assert read(tmp_path / "a.parquet").documents.digest == expected
    assert read(saved / "train").documents.digest == expected
    both = read(saved)
    assert both.documents.digest == expected
    assert set(split_pairs(both, "auto", 0).parts) == {"train", "val"}


def test_negatives_grades_and_scores_stay_with_their_documents(tmp_path: Path) -> None:
    row = {
        "query": "q",
        "positives": [
            {"docid": "p1", "title": "T", "text": "good"},
            {"docid": "p2", "text": "fair"},
        ],
        "negatives": ["bad", "T good", "worse"],
        "grades": [2, 1],
        "scores": [9.5, 8.0, 1.0, 2.0, 0.5],
    }
    (tmp_path / "a.jsonl").write_text(json.dumps(row) + "\n")
    found = read(tmp_path / "a.jsonl", columns=Columns(grade="grades", score="scores"))
    split = split_pairs(found, 0, 0)
    part = split.parts["train"]
    assert documents(found) == ["T good", "fair", "bad", "worse"]
    assert part.positives.tolist() == [[0, 1]] and part.grades.tolist() == [[2.0, 1.0]]
    assert part.negatives is not None and part.negatives.tolist() == [[2, 3]]
    assert part.scores is not None and part.scores.tolist() == [[9.5, 8.0]]
    assert part.negative_scores is not None and part.negative_scores.tolist() == [[1.0, 0.5]]
    assert split.left_out == 1


def test_a_document_with_grade_0_is_in_the_bank_and_nobody_s_positive(tmp_path: Path) -> None:
    table = tmp_path / "a.csv"
    table.write_text("query,document,label\nq one,good,1\nq one,bad,0\nq two,worse,0\n")
    found = read(table, columns=Columns(grade="label"))
    assert documents(found) == ["good", "bad", "worse"] and found.refused_grades == 2
    part = split_pairs(found, 0, 0).parts["train"]
    assert part.positives.tolist() == [[0]] and part.grades.tolist() == [[1.0]]
    table.write_text("query,document,label\nq one,bad,0\n")
    with pytest.raises(BadData, match="no query has a document with a grade above 0"):
        read(table, columns=Columns(grade="label"))


def test_columns_without_a_role_are_named_with_the_option_they_may_be_meant_for(
    tmp_path: Path,
) -> None:
    (tmp_path / "a.csv").write_text(",id,query,document,Label\n0,7,q,d,0\n1,8,r,e,1\n")
    for found in (read(tmp_path / "a.csv"), read(tmp_path / "a.csv")):  # the second one as kept
        assert found.unused == ("id", "Label")
    told = told_unused(found.unused)
    assert told.startswith("Columns that are not used: id, Label. If Label says how relevant")
    assert "--grade Label" in told and "--score" not in told
    assert "and 2 more." in told_unused([f"c{n}" for n in range(10)])
    assert read(tmp_path / "a.csv", columns=Columns(grade="Label")).unused == ("id",)


def test_an_empty_text_in_a_folder_of_parquet_is_told_with_its_file(tmp_path: Path) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    (tmp_path / "parts").mkdir()
    for name, answers in (("a", ["one", "two"]), ("b", ["three", ""])):
        table = arrow.table({"query": ["q", "r"], "answer": answers})
        parquet.write_table(table, tmp_path / "parts" / f"{name}.parquet")
    with pytest.raises(BadData, match=r"parts/b\.parquet row 2: the document is empty"):
        read(tmp_path / "parts")


def test_negatives_of_sentence_transformers_are_numbered_columns(tmp_path: Path) -> None:
    head = "anchor,positive,negative_1,negative_2"
    (tmp_path / "a.csv").write_text(f"{head}\nq,p,n1,n2\nr,p2,,n2\n")
    part = split_pairs(read(tmp_path / "a.csv"), 0, 0).parts["train"]
    assert part.negatives is not None
    assert part.negatives.tolist() == [[1, 2], [2, -1]]


def test_sequences_are_rows_of_a_context(tmp_path: Path) -> None:
    rows = [{"history": ["a", "b"], "document": "x"}, {"history": ["b", "c", "a"], "document": "y"}]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = read(tmp_path / "a.jsonl", columns=Columns(sequence="history"))
    assert found.queries is None and found.passages is not None and found.sequences is not None
    assert found.passages.texts.read(0, 3) == ["a", "b", "c"]
    steps = found.sequences.load(found.passages.rows).padded(np.arange(2))
    assert steps.tolist() == [[0, 1, -1], [1, 2, 0]]


def test_beir_refers_by_ids_has_grades_and_its_own_splits(tmp_path: Path) -> None:
    folder = beir(tmp_path / "set")
    (folder / "qrels" / "test.tsv").write_text("q2\t0\td1\t1\nq2\td2\t0\n")
    found = read(folder)
    assert documents(found) == ["T one", "two"]
    assert found.documents.ids is not None and found.documents.ids.read(0, 2) == ["d1", "d2"]
    parts = split_pairs(found, 0, 0).parts
    assert parts["train"].positives.tolist() == [[0], [1]]
    assert parts["train"].grades.tolist() == [[2.0], [1.0]]
    assert parts["test"].queries.tolist() == [1] and parts["test"].positives.tolist() == [[0]]
    assert found.refused_grades == 1


def test_an_id_of_a_text_that_has_another_is_counted_and_still_known(tmp_path: Path) -> None:
    folder = beir(tmp_path / "set")
    with (folder / "corpus.jsonl").open("a") as file:
        file.write('{"_id": "d3", "title": "", "text": "two"}\n')
    (folder / "qrels" / "train.tsv").write_text("q1 d3 1\nq2 d2 1\n")
    found = read(folder)
    assert (found.documents.count, found.documents.merged) == (2, 1)
    assert split_pairs(found, 0, 0).parts["train"].positives.tolist() == [[1], [1]]


def test_pairs_of_a_document_are_on_one_side(tmp_path: Path) -> None:
    rows = "".join(f"q{n},document {n // 3}\n" for n in range(3000))
    (tmp_path / "a.csv").write_text(f"question,answer\n{rows}")
    split = split_pairs(read(tmp_path / "a.csv"), 0.1, 0)
    train, val = (set(split.parts[name].positives.ravel()) for name in ("train", "val"))
    assert not train & val and len(split.parts["val"]) == pytest.approx(300, abs=3)
    assert "stay together" in split.text


def test_what_was_read_is_used_again_until_a_file_or_an_option_changes(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text(CSV)
    said: list[str] = []

    class Told(Reporter):
        def note(self, text: str) -> None:
            said.append(text)

    def again(**reading: Any) -> Read:
        return read_inputs([file], Reading(**reading), tmp_path / "work", Told())

    first = read(file)
    assert documents(again()) == documents(first) and said == ["The inputs are already read."]
    assert split_pairs(again(), 0, 0).parts["train"].positives.tolist() == [
        [0, 1],
        [0, -1],
        [1, -1],
    ]
    said.clear()
    for path in sorted((tmp_path / "work" / "texts").iterdir()):
        whole = path.read_bytes()
        path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        again()
        assert path.read_bytes() == whole and said == []
    again(skip_empty=True)
    file.write_text(CSV.replace("same", "SAME"))
    assert documents(again()) == ["SAME", "other"] and said == []


def test_equal_things_are_found_in_any_number_of_rounds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = np.random.default_rng(0).integers(0, 300, 1000)
    writer = KeyWriter(tmp_path / "keys")
    for value in values:
        writer.append(key_of(str(value).encode()))
    writer.close()
    _, inverse = np.unique(values, return_inverse=True)
    expected = np.array([np.flatnonzero(inverse == group)[0] for group in inverse])
    for at_once in (1 << 20, 300, 7):
        monkeypatch.setattr(distinct, "_AT_ONCE", at_once)
        assert np.array_equal(first_equal(tmp_path / "keys", tmp_path / "firsts"), expected)


@pytest.mark.parametrize("name", ["a.jsonl.gz", "a.csv.gz"])
def test_a_packed_line_without_an_end_is_refused_before_it_fills_the_memory(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_tables, "_LONGEST_LINE", 1000)
    (tmp_path / name).write_bytes(gzip.compress(b'{"question": "' + b"a" * 10_000))
    with pytest.raises(BadData, match=r"line 1 has more than 1,000 characters"):
        read(tmp_path / name)


@pytest.mark.parametrize("equal", [True, False])
def test_a_table_of_a_hundred_thousand_columns_is_refused_at_once(
    tmp_path: Path, *, equal: bool
) -> None:
    """Each name was looked for in all names."""
    names = ",".join("a" if equal else str(n) for n in range(100_000))
    (tmp_path / "a.csv").write_text(f"query,document,{names}\n")
    with pytest.raises(BadData, match="has 100,002 columns"):
        read(tmp_path / "a.csv")


def test_the_columns_of_many_objects_are_counted_together(tmp_path: Path) -> None:
    lines = [json.dumps({f"{line}-{n}": 0 for n in range(500)}) for line in range(30)]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    with pytest.raises(BadData, match="has 10,500 columns"):
        read(tmp_path / "a.jsonl")


def test_a_row_of_many_long_lines_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_tables, "_LONGEST_RECORD", 2000)
    cells = ",".join(f'"{"a" * 500}\n"' for _ in range(2))
    (tmp_path / "a.csv").write_text(f"query,document\n{cells}\n{cells}\n")
    read(tmp_path / "a.csv")  # each row is short enough
    (tmp_path / "a.csv").write_text(f"query,document\n{cells},{cells},{cells}\n")
    with pytest.raises(BadData, match="a row has more than 2,000 characters"):
        read(tmp_path / "a.csv")


def test_a_cell_that_begins_like_a_deep_list_is_a_text(tmp_path: Path) -> None:
    deep = "[" * 200_000
    (tmp_path / "a.csv").write_text(f"query,document\na,{deep}\n")
    assert read(tmp_path / "a.csv").documents.count == 1


@pytest.mark.parametrize("name", ["dataset_dict.json", "state.json", "a.parquet", "qrels/test.tsv"])
def test_a_pipe_in_a_folder_of_texts_is_not_waited_for(name: str, tmp_path: Path) -> None:
    """Nobody writes to it: to open it would last for ever."""
    folder = beir(tmp_path / "texts") if "/" in name else tmp_path / "texts"
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).unlink(missing_ok=True)
    os.mkfifo(folder / name)
    with pytest.raises(
        TtfError, match=r"no texts that ttf reads|not a regular file|no regular file"
    ):
        read(folder)
