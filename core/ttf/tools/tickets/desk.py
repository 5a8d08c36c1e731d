"""Node 0's end of the connections: who comes is compared, who is silent or gone is lost."""

from __future__ import annotations

import contextlib
import secrets
import selectors
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ttf.errors import TtfError
from ttf.process.error_document import to_document
from ttf.process.line import Line, LineLost
from ttf.tools.tickets.pieces import Arriving

PROTOCOL: Final = 1
BEAT: Final[Mapping[str, Any]] = {"beat": True}
BEAT_S: Final = 1.0
# A host without power or network says nothing; one that reads a large run folder is silent, too.
SILENT_S: Final = 30.0
_HELLO_S: Final = 20.0
_SEND_S: Final = 2.0
_MOST_STRANGERS: Final = 64

# From its hello: what it is told besides. Raises TtfError to refuse it.
Greet = Callable[[Mapping[str, Any]], Mapping[str, Any]]
# From the header of numbers that a node brings: how many bytes they must be. None: not expected.
Expected = Callable[["Node", Mapping[str, Any]], int | None]


@dataclass(eq=False)
class Node:
    """Another host that was welcomed."""

    line: Line
    name: str
    key: str = field(default_factory=lambda: secrets.token_hex(16))
    heard_at: float = field(default_factory=time.monotonic)


@dataclass(frozen=True)
class Came:
    node: Node
    hello: Mapping[str, Any]


@dataclass(frozen=True)
class Said:
    node: Node
    message: Mapping[str, Any]


@dataclass(frozen=True)
class Left:
    node: Node
    why: str


@dataclass(frozen=True)
class Brought:
    """Numbers, whole and as they were sent."""

    node: Node
    header: Mapping[str, Any]
    data: bytearray


Event = Came | Said | Left | Brought


class Desk:
    """Never waits for a node, but in `look`; call that often."""

    def __init__(self, listener: socket.socket, most: int, say: Callable[[str], None]) -> None:
        """`most`: other nodes at a time."""
        self._listener, self._most, self._say = listener, most, say
        self.greet: Greet = lambda _: {}
        self.expected: Expected = lambda node, header: None
        self.nodes: list[Node] = []
        self._strangers: dict[Line, float] = {}  # each with the time until which it must say hello
        self._arriving: dict[Line, tuple[Node, Arriving]] = {}
        self._events: list[Event] = []
        self._beat_at = 0.0
        self._selector = selectors.DefaultSelector()
        self._selector.register(listener, selectors.EVENT_READ, None)

    def look(self, wait_s: float) -> list[Event]:
        """What happened since the last call; waits at most `wait_s` for something."""
        for key, _ in self._selector.select(0.0 if self._events else wait_s):
            self._readable(key.data)
        self._beat()
        events, self._events = self._events, []
        return events

    def tell(self, node: Node, message: Mapping[str, Any]) -> None:
        """If it is lost, the next `look` says so."""
        if node in self.nodes:
            try:
                node.line.send(message, _SEND_S)
            except LineLost as error:
                self._lose(node, str(error))

    def dismiss(self, node: Node, why: str) -> None:
        """It says what cannot be true."""
        self.tell(node, {"over": "error", "text": f"Node 0 dismissed this host: {why}."})
        if node in self.nodes:
            self._lose(node, why)

    def close(self, last: Mapping[str, Any]) -> None:
        """The last words to all nodes."""
        for node in list(self.nodes):
            with contextlib.suppress(LineLost):
                node.line.send(last, _SEND_S)
            _close_in_order(node.line)
        for line in (*self._strangers, *self._arriving):
            line.close()
        self._selector.close()
        self._listener.close()

    # --- what comes ------------------------------------------------------------------------------

    def _readable(self, line: Line | None) -> None:
        if line is None:
            self._accept()
        elif line in self._strangers:
            self._stranger(line)
        elif line in self._arriving:
            self._arrives(line)
        else:
            node = next((node for node in self.nodes if node.line is line), None)
            if node is not None:
                self._hear(node)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            connection, address = self._listener.accept()
            connection.settimeout(_SEND_S)
            line = Line(connection)
            line.name = str(address[0])
            if len(self._strangers) >= _MOST_STRANGERS:
                line.close()
                return
            self._strangers[line] = time.monotonic() + _HELLO_S
            self._selector.register(connection, selectors.EVENT_READ, line)

    def _stranger(self, line: Line) -> None:
        try:
            line.take()
        except LineLost:
            self._forget(line)
            return
        message = line.next_message()
        if message is None:
            return
        if "numbers" in message:
            self._expect(line, message)
        elif message.get("hello") == PROTOCOL:
            self._welcome(line, message)
        else:
            self._forget(line, refused="it is another program, or another version of ttf")

    def _welcome(self, line: Line, hello: Mapping[str, Any]) -> None:
        if len(self.nodes) >= self._most:
            # Perhaps one of them is gone and nobody has noticed yet: it asks again.
            with contextlib.suppress(LineLost):
                line.send({"later": f"all {self._most + 1} nodes are there already"}, _SEND_S)
            self._forget(line)
            return
        try:
            told = self.greet(hello)
        except TtfError as error:
            self._say(f"A host was refused: {error}")
            document = {**to_document(error), "traceback": "", "fields": {}}
            with contextlib.suppress(LineLost):
                line.send({"refused": document}, _SEND_S)
            self._forget(line)
            return
        del self._strangers[line]
        node = Node(line, str(told["name"]))
        line.name = node.name
        self.nodes.append(node)
        self.tell(node, {"welcome": node.name, "key": node.key, **told})
        self._events.append(Came(node, hello))

    def _hear(self, node: Node) -> None:
        try:
            node.line.take()
        except LineLost as error:
            self._lose(node, str(error))
            return
        node.heard_at = time.monotonic()
        while (message := node.line.next_message()) is not None:
            if message != BEAT:
                self._events.append(Said(node, message))

    # --- numbers ---------------------------------------------------------------------------------

    def _expect(self, line: Line, header: Mapping[str, Any]) -> None:
        node = next((one for one in self.nodes if one.key == header.get("key")), None)
        size = None if node is None else self.expected(node, header)
        arriving = None if size is None else Arriving(header, size)
        if node is None or arriving is None or not arriving.fits:
            self._forget(line, refused="nothing of this size was expected")
            return
        self._drop_earlier(node, header)
        del self._strangers[line]
        self._arriving[line] = node, arriving
        with contextlib.suppress(LineLost):
            line.send({"go": True}, _SEND_S)

    def _drop_earlier(self, node: Node, header: Mapping[str, Any]) -> None:
        """The same numbers once more: their connection was lost. Each copy would be held whole."""
        for line, (of, arriving) in list(self._arriving.items()):
            if of is node and arriving.header["numbers"] == header["numbers"]:
                del self._arriving[line]
                self._drop(line)

    def _arrives(self, line: Line) -> None:
        node, arriving = self._arriving[line]
        node.heard_at = time.monotonic()
        over = arriving.take(line.connection)
        if over is None:
            return
        del self._arriving[line]
        with contextlib.suppress(LineLost):
            line.send({"arrived": over}, _SEND_S)
        self._drop(line)
        if over:
            self._events.append(Brought(node, arriving.header, arriving.data))

    # --- who is there ----------------------------------------------------------------------------

    def _beat(self) -> None:
        now = time.monotonic()
        if now < self._beat_at:
            return
        self._beat_at = now + BEAT_S
        for line, until in list(self._strangers.items()):
            if now > until:
                self._forget(line, refused="it said nothing")
        for node in list(self.nodes):
            if now - node.heard_at > SILENT_S:
                self._lose(node, f"{node.name}: no sign of life for {SILENT_S:.0f} s")
            else:
                self.tell(node, BEAT)

    def _lose(self, node: Node, why: str) -> None:
        self.nodes.remove(node)
        for line, (of, _) in list(self._arriving.items()):
            if of is node:
                del self._arriving[line]
                self._drop(line)
        self._drop(node.line)
        self._events.append(Left(node, why))

    def _forget(self, line: Line, refused: str = "") -> None:
        del self._strangers[line]
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(line.connection)
        if refused:
            line.refuse(refused)
        else:
            line.close()

    def _drop(self, line: Line) -> None:
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(line.connection)
        line.close()


def _close_in_order(line: Line) -> None:
    # Closed with unread bytes, the connection would be reset, and the last words lost.
    with contextlib.suppress(OSError):
        line.connection.shutdown(socket.SHUT_WR)
        line.connection.settimeout(_SEND_S)
        until = time.monotonic() + _SEND_S
        while time.monotonic() < until and line.connection.recv(1 << 16):
            pass
    line.close()
