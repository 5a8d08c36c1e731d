"""Node 0's desk and another node over real sockets, in two threads of one process."""

from __future__ import annotations

import contextlib
import socket
import threading
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

from ttf.errors import BadData, ConfigError, PeerLost
from ttf.process import messages
from ttf.process.line import Line, LineLost, connected
from ttf.supervise.nodes.addresses import listening
from ttf.tools.tickets import facts
from ttf.tools.tickets.desk import PROTOCOL, Brought, Came, Desk, Left, Said
from ttf.tools.tickets.follower import follow
from ttf.tools.tickets.pieces import send_bytes
from ttf.tools.tickets.place import Place, place_of

WAIT_S = 20.0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def desk_of(most: int = 1) -> Iterator[tuple[Desk, Place, list[str]]]:
    port, said = free_port(), list[str]()
    desk = Desk(listening("127.0.0.1", port), most, said.append)
    desk.greet = lambda hello: {"name": str(hello.get("called", "two"))}
    try:
        yield desk, Place(nodes=most + 1, host="127.0.0.1", port=port, patience_s=5.0), said
    finally:
        desk.close({"over": "all"})


class Adder:
    """Adds one to the number of each ticket."""

    def __init__(self, called: str = "two") -> None:
        self.called = called
        self.waiting: list[int] = []
        self.asked = False

    def hello(self) -> Mapping[str, Any]:
        return {"called": self.called}

    def welcomed(self, welcome: Mapping[str, Any]) -> None:
        self.asked = False

    def heard(self, message: Mapping[str, Any]) -> None:
        self.waiting.append(int(message["ticket"]))

    def look(self) -> None:
        pass

    def to_say(self) -> Iterator[Mapping[str, Any]]:
        while self.waiting:
            yield {"result": self.waiting.pop() + 1}
        if not self.asked:
            self.asked = True
            yield {"want": 1}


class Other(threading.Thread):
    """Another node."""

    def __init__(self, place: Place, hand: Adder | None = None) -> None:
        super().__init__()
        self.place, self.hand = place, hand or Adder()
        self.over: Mapping[str, Any] = {}
        self.error: Exception | None = None
        self.start()

    def run(self) -> None:
        try:
            self.over = follow(self.place, self.hand)
        except Exception as error:  # noqa: BLE001 - for the test to look at
            self.error = error


def events(desk: Desk, *kinds: type) -> list[Any]:
    """The next events of these kinds, in this order."""
    found: list[Any] = []
    for _ in range(int(WAIT_S / 0.05)):
        for event in desk.look(0.05):
            if len(found) < len(kinds) and isinstance(event, kinds[len(found)]):
                found.append(event)
        if len(found) == len(kinds):
            return found
    raise AssertionError(f"only {found}")


def test_a_ticket_goes_out_and_its_result_comes_back() -> None:
    with desk_of() as (desk, place, _):
        other = Other(place)
        came, want = events(desk, Came, Said)
        assert came.node.name == "two" and want.message == {"want": 1}
        desk.tell(came.node, {"ticket": 41})
        (result,) = events(desk, Said)
        assert result.message == {"result": 42}
    other.join(WAIT_S)
    assert other.over == {"over": "all"}


def test_a_node_that_node_0_refuses_ends_with_its_reason_and_exit_code() -> None:
    def greet(hello: Mapping[str, Any]) -> Mapping[str, Any]:
        raise BadData("host-b has other data.", hint="Copy it.")

    with desk_of() as (desk, place, said):
        desk.greet = greet
        other = Other(place)
        while other.is_alive():
            desk.look(0.05)
    assert isinstance(other.error, BadData) and other.error.hint == "Copy it."
    assert int(other.error.exit_code) == 3
    assert said == ["A host was refused: host-b has other data."]


def test_a_lost_connection_is_noticed_by_both_and_made_again() -> None:
    with desk_of() as (desk, place, _):
        other = Other(place)
        (came,) = events(desk, Came)
        came.node.line.connection.shutdown(socket.SHUT_RDWR)
        left, again = events(desk, Left, Came)
        assert left.node is came.node and again.node is not came.node
    other.join(WAIT_S)
    assert other.over == {"over": "all"}


def test_patience_ends_with_what_to_do() -> None:
    place = Place(nodes=2, host="127.0.0.1", port=free_port(), patience_s=0.1)
    with pytest.raises(PeerLost, match="does not answer") as caught:
        follow(place, Adder())
    assert "Start the same command on node 0" in caught.value.hint


def test_strangers_and_garbage_are_sent_away_and_the_work_goes_on() -> None:
    with desk_of() as (desk, place, _):
        address = (place.host, place.port)
        with socket.create_connection(address) as web:
            web.sendall(b"GET / HTTP/1.1\r\n\r\n")
            old = connected(address, 5.0)
            old.send({"hello": PROTOCOL + 1})
            thief = connected(address, 5.0)
            thief.send({"numbers": 1, "key": "guessed", "bytes": 8, "crc": 0})
            other = Other(place)
            (came,) = events(desk, Came)
            assert came.node.name == "two"
            assert "another version" in old.receive(5.0)["refused"]
            assert "nothing of this size" in thief.receive(5.0)["refused"]
            old.close()
            thief.close()
    other.join(WAIT_S)
    assert other.over == {"over": "all"}


def test_more_nodes_than_said_wait_until_one_has_left() -> None:
    with desk_of() as (desk, place, _):
        first = Other(place, Adder("first"))
        (came,) = events(desk, Came)
        second = Other(place, Adder("second"))
        for _ in range(3):
            assert not any(isinstance(event, Came) for event in desk.look(0.05))
        desk.dismiss(came.node, "it is tired")
        (later,) = events(desk, Came)
        assert later.node.name == "second"
    first.join(WAIT_S)
    second.join(WAIT_S)
    assert first.over["over"] == "error" and "it is tired" in first.over["text"]


@pytest.mark.parametrize("size", [1, (1 << 18) + 7])
def test_numbers_arrive_whole_beside_the_messages(size: int) -> None:
    data = bytes(n % 251 for n in range(size))
    with desk_of() as (desk, place, _):
        desk.expected = lambda node, header: size
        other = Other(place)
        (came,) = events(desk, Came)
        header = {"numbers": 7, "key": came.node.key}
        beats: list[int] = []
        sender = threading.Thread(
            target=send_bytes,
            args=((place.host, place.port), header, data, lambda: beats.append(1)),
        )
        sender.start()
        (brought,) = events(desk, Brought)
        sender.join(WAIT_S)
        assert brought.node is came.node and bytes(brought.data) == data
        assert brought.header["numbers"] == 7 and len(beats) == -(-size // (1 << 18))
    other.join(WAIT_S)


def test_numbers_with_another_checksum_or_size_are_not_taken() -> None:
    with desk_of() as (desk, place, _):
        desk.expected = lambda node, header: 4
        other = Other(place)
        (came,) = events(desk, Came)
        line = connected((place.host, place.port), 5.0)
        line.send({"numbers": 1, "key": came.node.key, "bytes": 4, "crc": zlib.crc32(b"good")})
        for _ in range(10):
            desk.look(0.05)
        assert line.receive(5.0) == {"go": True}
        line.connection.sendall(b"evil")
        for _ in range(10):
            assert not any(isinstance(event, Brought) for event in desk.look(0.05))
        assert line.receive(5.0) == {"arrived": False}
        line.close()
    other.join(WAIT_S)


@pytest.fixture
def pair() -> Iterator[tuple[Line, socket.socket]]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        theirs = socket.create_connection(server.getsockname())
        ours, _ = server.accept()
    line = Line(ours)
    yield line, theirs
    line.close()
    theirs.close()


def test_a_line_knows_garbage_from_messages(pair: tuple[Line, socket.socket]) -> None:
    line, theirs = pair
    theirs.sendall(messages.encode({"a": 1})[:-1] + b"?")
    with pytest.raises(LineLost, match="another language"):
        line.receive(5.0)


# --- what is compared ----------------------------------------------------------------------------

HERE = {
    "host": "one",
    "ttf": "1",
    "python": "3.11",
    "torch": "2.13",
    "numpy": "2.4",
    "processor": "x",
    "threads": "2",
}


def test_other_versions_are_refused_and_another_processor_is_stated() -> None:
    other = {**HERE, "host": "two", "processor": "y", "threads": "8"}
    facts.refuse_other_versions(HERE, other)
    assert facts.stated(HERE, other) == "processor y (node 0: x), threads 8 (node 0: 2)"
    with pytest.raises(ConfigError, match="torch: 2.14 on two, 2.13 on one"):
        facts.refuse_other_versions(HERE, {**other, "torch": "2.14"})


def test_other_data_is_refused_with_its_name_and_the_host() -> None:
    facts.refuse_other_data({"data.bank of a": "9 bytes"}, {"data.bank of a": "9 bytes"}, "two")
    with pytest.raises(BadData, match="data.bank of a: missing: No such file on two; 9 bytes"):
        facts.refuse_other_data(
            {"data.bank of a": "9 bytes"}, {"data.bank of a": "missing: No such file"}, "two"
        )
    with pytest.raises(BadData, match="not named on two"):
        facts.refuse_other_data({"data.bank of a": "9 bytes"}, None, "two")


def test_a_hello_that_is_none_is_no_facts() -> None:
    with pytest.raises(ValueError, match="does not say"):
        facts.read({"host": "x"})
    assert facts.read({**HERE, "host": "../x y"})["host"] == "x-y"


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ((1, "a:1", None, None), "--rendezvous: only for several hosts"),
        ((2, "", None, None), "needs --rendezvous"),
        ((2, "a", None, None), "not HOST:PORT"),
        ((2, "a:1", 2, None), "the nodes are 0 to 1"),
        ((2, "0.0.0.0:1", None, None), "every address"),
    ],
)
def test_where_nodes_cannot_meet_is_refused(given: tuple[Any, ...], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        place_of(*given)


def test_numbers_that_come_again_replace_those_that_are_on_their_way() -> None:
    """Else a host fills the memory of node 0 with copies of one block."""
    size = 1 << 10
    with desk_of() as (desk, place, _), contextlib.ExitStack() as lines:
        desk.expected = lambda node, header: size
        other = Other(place)
        (came,) = events(desk, Came)
        for _ in range(5):
            line = connected((place.host, place.port), 5.0)
            lines.callback(line.close)
            line.send({"numbers": [7], "key": came.node.key, "bytes": size, "crc": 0})
            while line.next_message() is None:
                desk.look(0.01)
                line.connection.settimeout(0.01)
                line.take()
            line.connection.sendall(bytes(size - 1))
        assert len(desk._arriving) == 1
    other.join(WAIT_S)
