"""A connection between two supervisors, over real sockets."""

from __future__ import annotations

import socket
import struct
import time
import zlib
from collections.abc import Iterator
from typing import Any

import pytest

from ttf.supervise.nodes import line as lines
from ttf.supervise.nodes.line import Line

Pair = tuple[Line, Line]


@pytest.fixture
def pair() -> Iterator[Pair]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        one = socket.create_connection(server.getsockname()[:2])
        other, _ = server.accept()
    ends = Line(one, 60.0), Line(other, 60.0)
    yield ends
    for end in ends:
        end.lost = end.lost or "gone"
        end.close()


def taken(end: Line, count: int = 1) -> list[dict[str, Any]]:
    """Bounded look for messages."""
    found: list[dict[str, Any]] = []
    ends_at = time.monotonic() + 20
    while len(found) < count and not end.lost and time.monotonic() < ends_at:
        found += end.take()
    return found


def test_messages_arrive_whole_and_in_order(pair: Pair) -> None:
    long = {"documents": {"run.toml": "x" * 300_000}}
    pair[0].send(long)
    pair[0].send({"end": True})
    found: list[dict[str, Any]] = []
    while len(found) < 2:
        pair[0].take()  # it also sends what did not fit
        found += pair[1].take()
    assert found == [long, {"end": True}]


def test_what_was_said_last_arrives_though_the_other_end_talks_as_well(pair: Pair) -> None:
    pair[1].send({"stopping": 2})
    pair[0].send({"over": None})
    pair[0]._connection.settimeout(0.2)
    pair[1].take()
    lines_before = lines._LAST_WORDS_S
    assert lines_before > 0
    pair[0].close()
    assert taken(pair[1]) in ([{"over": None}], [])


def test_an_end_that_closes_is_gone(pair: Pair) -> None:
    pair[0]._connection.close()
    taken(pair[1])
    assert pair[1].lost == "gone"


def test_an_end_that_says_nothing_is_silent_after_the_limit(pair: Pair) -> None:
    pair[1].heard_at -= 61.0
    assert pair[1].take() == [] and pair[1].lost == "silent"


def test_signs_of_life_are_heard_and_not_passed_on(pair: Pair) -> None:
    pair[0]._said_at -= 10.0
    pair[0].take()  # says that it is there
    pair[1].heard_at -= 50.0
    before = pair[1].heard_at
    ends_at = time.monotonic() + 20
    while pair[1].heard_at == before and time.monotonic() < ends_at:
        assert pair[1].take() == []
    assert pair[1].heard_at > before and not pair[1].lost


def test_bytes_of_a_stranger_end_the_connection_with_a_reason(pair: Pair) -> None:
    pair[0]._connection.sendall(b"GET / HTTP/1.1\r\nHost: example.org\r\n\r\n")
    taken(pair[1])
    assert pair[1].lost == "gone" and "length" in pair[1].garbage


@pytest.mark.parametrize(
    "text",
    [
        b'{"end": Infinity}',
        b'{"end": NaN}',
        b'{"end": 1' + b"0" * 400 + b"}",
        b'{"end": ' + b"[" * 40 + b"]" * 40 + b"}",
    ],
)
def test_numbers_and_depths_beyond_every_type_end_the_connection(pair: Pair, text: bytes) -> None:
    pair[0]._connection.sendall(struct.pack("<II", len(text), zlib.crc32(text)) + text)
    assert taken(pair[1]) == [] and "not valid JSON" in pair[1].garbage


def test_who_is_not_known_yet_may_say_little(pair: Pair) -> None:
    pair[1]._reader.longest = 1000
    pair[0].send({"hello": "x" * 2000})
    assert taken(pair[1]) == [] and "announces a length" in pair[1].garbage
