"""Logs that grow, are torn, cut, or written anew while somebody reads them."""

from __future__ import annotations

import json
from pathlib import Path

from ttf.rundir.json_lines import Tail, last_with, parsed


def test_only_whole_new_lines_are_given(tmp_path: Path) -> None:
    path = tmp_path / "log"
    tail = Tail(path, tmp_path, 100)
    assert tail.lines() == [] and not tail.anew
    path.write_bytes(b"one\ntw")
    assert tail.lines() == [b"one"]
    assert tail.lines() == []
    with path.open("ab") as file:
        file.write(b"o\nthree\n")
    assert tail.lines() == [b"two", b"three"] and not tail.anew


def test_of_a_long_file_the_end_is_read(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"".join(b"line %d\n" % i for i in range(1000)))
    assert Tail(path, tmp_path, 30).lines() == [b"line 997", b"line 998", b"line 999"]
    tail = Tail(path, tmp_path, 1 << 20)
    assert len(tail.lines()) == 1000
    with path.open("ab") as file:
        file.write(b"x" * (2 << 20) + b"\nlast\n")
    assert tail.lines() == [b"last"], "what is far behind is skipped"


def test_a_file_that_became_shorter_or_another_is_begun_anew(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"one\ntwo\n")
    tail = Tail(path, tmp_path, 100)
    tail.lines()
    path.write_bytes(b"1\n")
    assert tail.lines() == [b"1"] and tail.anew
    other = tmp_path / "other"
    other.write_bytes(b"a\nb\nc\n")
    other.replace(path)
    assert tail.lines() == [b"a", b"b", b"c"] and tail.anew
    assert tail.lines() == [] and not tail.anew
    path.unlink()
    assert tail.lines() == [] and tail.anew


def test_the_last_evaluation_is_found_however_far_back(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    step = json.dumps({"type": "step", "loss": 1.0, "text": '{"type": "eval"}'}).encode() + b"\n"
    wanted = b'{"type": "eval", "step": 7}'
    mark = b'"type": "eval"'
    for before, after in ((0, 0), (0, 40_000), (40_000, 40_000), (3, 0)):
        path.write_bytes(step * before + wanted + b"\n" + step * after + b'{"type": "eval", "st')
        assert last_with(path, tmp_path, mark) == wanted, (before, after)
    path.write_bytes(step * 10)
    assert last_with(path, tmp_path, mark) == b""
    assert last_with(tmp_path / "none", tmp_path, mark) == b""


def test_torn_lines_are_left_out() -> None:
    assert list(parsed([b'{"a": 1}', b'{"a": ', b"[1]", b"\xff", b""])) == [{"a": 1}]
