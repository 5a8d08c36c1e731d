"""What crosses the process border, and what a killed search leaves behind."""

from __future__ import annotations

import contextlib
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from numpy.typing import NDArray

from ttf.mining.growing_arrays import JOURNAL
from ttf.mining.miner_results import IDS, SCORES, Journal
from ttf.process.messages import BrokenFrame, Reader, encode

MESSAGES: list[dict[str, Any]] = [{"progress": [1, 2]}, {"say": "Gr\u00f6\u00dfe\n"}, {}]


@given(cuts=st.lists(st.integers(0, 100)))
def test_messages_survive_any_cutting_of_the_stream(cuts: list[int]) -> None:
    stream = b"".join(encode(m) for m in MESSAGES)
    edges = sorted({0, len(stream), *(min(c, len(stream)) for c in cuts)})
    reader = Reader()
    found = [m for a, b in itertools.pairwise(edges) for m in reader.feed(stream[a:b])]
    assert found == MESSAGES


@pytest.mark.parametrize("place", [0, 3, 4, 12])
def test_a_damaged_message_is_no_message(place: int) -> None:
    stream = bytearray(encode({"say": "hello"}) + encode({"say": "world"}))
    stream[place] ^= 0x80
    reader = Reader()
    with contextlib.suppress(BrokenFrame):
        assert list(reader.feed(bytes(stream))) == []


def answers(seed: int, rows: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    rng = np.random.default_rng(seed)
    return rng.integers(0, 99, (rows, 3)), rng.standard_normal((rows, 3)).astype(np.float32)


def test_a_complete_journal_is_two_ordinary_arrays(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path, (5, 3), "key")
    first, second = answers(1, 3), answers(2, 2)
    journal.append(*first)
    journal.append(*second)
    assert journal.done == 5
    assert (np.load(tmp_path / IDS) == np.concatenate([first[0], second[0]])).all()
    assert (np.load(tmp_path / SCORES) == np.concatenate([first[1], second[1]])).all()


def test_it_continues_after_its_last_durable_chunk(tmp_path: Path) -> None:
    Journal.open(tmp_path, (5, 3), "key").append(*answers(1, 3))
    with (tmp_path / IDS).open("ab") as file:
        file.write(b"torn")
    again = Journal.open(tmp_path, (5, 3), "key")
    assert again.done == 3
    again.append(*answers(2, 2))
    assert (np.load(tmp_path / IDS)[3:] == answers(2, 2)[0]).all()


@pytest.mark.parametrize("what", ["key", "shape", "bytes", "notes", "file"])
def test_it_starts_anew_where_something_differs(what: str, tmp_path: Path) -> None:
    Journal.open(tmp_path, (5, 3), "key").append(*answers(1, 3))
    if what == "bytes":
        data = bytearray((tmp_path / SCORES).read_bytes())
        data[140] ^= 1
        (tmp_path / SCORES).write_bytes(data)
    elif what == "notes":
        (tmp_path / JOURNAL).write_bytes(b"ttfblk1\n")
    elif what == "file":
        (tmp_path / IDS).unlink()
    key = "other" if what == "key" else "key"
    shape = (6, 3) if what == "shape" else (5, 3)
    assert Journal.open(tmp_path, shape, key).done == 0
