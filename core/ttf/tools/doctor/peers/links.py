"""Connections between two nodes as the processes of a run make them: on fresh ports, both ways.

A thread of each node answers; the main thread asks. Only who knows the token of this meeting is
answered. Bandwidth is measured in both directions at once: so the exchange of a step uses it.
"""

from __future__ import annotations

import contextlib
import hmac
import socket
import threading
import time
from typing import Any, Final

from ttf.process.line import Line, LineLost, connected

CONNECT_S: Final = 5.0
_ECHOES: Final = 7
_ANSWER_S: Final = 30.0
_FIRST_BYTES: Final = 1 << 16
_MOST_BYTES: Final = 1 << 26
# A transfer of so long has left TCP's slow start behind.
_LONG_ENOUGH_S: Final = 0.25
_BLOCK: Final = 1 << 18


class Answering:
    """Listens on a port that the system chooses, on one address of this node."""

    def __init__(self, address: str) -> None:
        """Raises OSError."""
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self._socket = socket.create_server((address, 0), family=family, backlog=64)
        self.port = int(self._socket.getsockname()[1])
        self.token = ""
        self.node = -1
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # closed: the meeting is over
            while True:
                connection, _ = self._socket.accept()
                threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        line = Line(connection)
        with contextlib.suppress(LineLost, OSError), contextlib.closing(line):
            hello = line.receive(CONNECT_S)
            if not self.token or not hmac.compare_digest(str(hello.get("token")), self.token):
                return
            line.send({"node": self.node})
            while True:
                self._do(line, line.receive(_ANSWER_S))

    def _do(self, line: Line, asked: dict[str, Any]) -> None:
        count = asked.get("bytes")
        if isinstance(count, int) and 0 < count <= _MOST_BYTES:
            line.send({"ready": count})
            line.connection.settimeout(_ANSWER_S)
            # Its first byte comes after it has read our message: so it takes no byte of ours for one.
            line.connection.recv(1, socket.MSG_PEEK)
            _both_ways(line.connection, count)
            line.send({"got": count})
        else:
            line.send({"echo": True})

    def close(self) -> None:
        # A thread that waits in accept() is not woken by close() alone.
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


def _both_ways(connection: socket.socket, count: int) -> None:
    """Sends so many bytes, and reads as many. Raises LineLost and OSError."""
    failures: list[OSError] = []

    def send() -> None:
        block = bytes(_BLOCK)
        try:
            for start in range(0, count, _BLOCK):
                connection.sendall(block[: min(_BLOCK, count - start)])
        except OSError as error:
            failures.append(error)

    sender = threading.Thread(target=send, daemon=True)
    sender.start()
    _read_away(connection, count)
    sender.join()
    if failures:
        raise failures[0]


def _read_away(connection: socket.socket, count: int) -> None:
    block = bytearray(_BLOCK)
    while count:
        got = connection.recv_into(block, min(count, _BLOCK))
        if not got:
            raise LineLost("the connection was closed in a transfer")
        count -= got


def look_at(
    address: tuple[str, int], source: str, token: str, node: int, *, transfer: bool
) -> dict[str, Any]:
    """Connects to another node: its round trip, and with `transfer` the bandwidth; or 'error'."""
    try:
        line = connected(address, CONNECT_S, source)
    except OSError as error:
        return {"error": error.strerror or str(error)}
    with contextlib.closing(line):
        try:
            line.send({"token": token})
            if line.receive(CONNECT_S).get("node") != node:
                return {"error": "another node answered"}
            rtt_s = min(_round_trip(line) for _ in range(_ECHOES))
            found: dict[str, Any] = {"rtt_s": rtt_s}
            if transfer:
                found["bytes_per_s"] = _bandwidth(line, rtt_s)
            return found
        except LineLost as error:
            return {"error": str(error)}


def _round_trip(line: Line) -> float:
    began = time.perf_counter()
    line.send({"echo": True})
    line.receive(_ANSWER_S)
    return time.perf_counter() - began


def _bandwidth(line: Line, rtt_s: float) -> float:
    count = _FIRST_BYTES
    while True:
        line.send({"bytes": count})
        line.receive(_ANSWER_S)
        took = _transfer_s(line, count)
        if took - rtt_s > _LONG_ENOUGH_S or count >= _MOST_BYTES:
            # The answer comes half a round trip after the last byte, which came as late.
            return count / max(took - rtt_s, 1e-9)
        count *= 4


def _transfer_s(line: Line, count: int) -> float:
    began = time.perf_counter()
    try:
        line.connection.settimeout(_ANSWER_S)
        _both_ways(line.connection, count)
    except OSError as error:
        raise LineLost(error.strerror or str(error)) from error
    line.receive(_ANSWER_S)
    return time.perf_counter() - began
