"""Texts for exports: what is read, and what is refused with the line."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest

from ttf.errors import BadData, DataMissing
from ttf.tools.export import texts
from ttf.tools.export.texts import StoredTexts, lines_of, store


def stored(path: Path, rows: int, folder: Path) -> list[str]:
    store(folder, lines_of(path, "val"), rows, path.name)
    found = StoredTexts.found(folder)
    assert found is not None
    return list(found)


def test_lines_with_rows_may_have_any_order_and_other_splits(tmp_path: Path) -> None:
    path = tmp_path / "q.jsonl.gz"
    lines = [
        '{"split": "train", "row": 0, "text": "no"}',
        '{"split": "val", "row": 1, "text": "zwei\u00e4"}',
        '{"split": "val", "row": 0, "text": ""}',
    ]
    path.write_bytes(gzip.compress("\n".join(lines).encode()))
    assert stored(path, 2, tmp_path / "out") == ["", "zwei\u00e4"]


def test_plain_lines_are_rows_in_order(tmp_path: Path) -> None:
    path = tmp_path / "q.txt"
    path.write_text("one\ntwo\r\nthree")
    assert stored(path, 3, tmp_path / "out") == ["one", "two", "three"]


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b'{"text": "a"}\n{"text": 5}\n', "line 2"),
        (b'{"text": "a"}\n{"txt": "b"}\n', "Keys: txt"),
        (b'{"text": "a"}\nnot json\n', "line 2"),
        (b'{"text": "a"}\n["b"]\n', "JSON object"),
        (b'{"text": "a"}\n', "no text for row 1"),
        (b'{"text": "a"}\n{"text": "b"}\n{"text": "c"}\n', "row 2"),
        (b'{"text": "a", "row": true}\n', "whole number"),
        (b'{"text": "a"}\n{"text": "\xff"}\n', "not UTF-8"),
    ],
    ids=["number", "key", "no-json", "list", "short", "long", "row", "latin1"],
)
def test_bad_texts_are_refused_with_their_place(tmp_path: Path, data: bytes, told: str) -> None:
    path = tmp_path / "q.jsonl"
    path.write_bytes(data)
    with pytest.raises(BadData, match=told):
        stored(path, 2, tmp_path / "out")


def test_a_damaged_gzip_and_a_missing_file(tmp_path: Path) -> None:
    path = tmp_path / "q.txt.gz"
    path.write_bytes(gzip.compress(b"one\ntwo\n" * 500)[:-20])
    with pytest.raises(BadData, match="could not be read"):
        stored(path, 1000, tmp_path / "out")
    with pytest.raises(DataMissing):
        list(lines_of(tmp_path / "nix.txt", None))


@pytest.mark.parametrize("name", ["q.txt", "q.jsonl.gz"])
def test_a_line_without_an_end_is_refused_before_it_fills_the_memory(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(texts, "_MOST_LINE", 1000)
    data = b'{"text": "' + b"a" * 10_000
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    asked: list[int] = []
    decoded = texts._decoded

    def counted(raw: bytes, *at: Any) -> Any:
        asked.append(len(raw))
        return decoded(raw, *at)

    monkeypatch.setattr(texts, "_decoded", counted)
    with pytest.raises(BadData, match="line 1: the line is longer than 1,000 bytes"):
        stored(tmp_path / name, 1, tmp_path / "out")
    assert asked == [1001]
