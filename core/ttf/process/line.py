"""A TCP connection between two nodes that carries small JSON messages, each within a time limit."""

from __future__ import annotations

import contextlib
import socket
import time
from collections import deque
from collections.abc import Mapping
from typing import Any, Final

from ttf.process import messages

# Facts about a node take some 10 kB; node 0 tells those of all.
MOST_BYTES: Final = 1 << 20
MOST_TOLD: Final = 16 << 20
_CHUNK: Final = 1 << 16


class LineLost(Exception):
    """The other end is gone, late, or says what is no message."""


class Line:
    def __init__(self, connection: socket.socket, most_bytes: int = MOST_BYTES) -> None:
        self.connection = connection
        self.name = ""  # of the other end, for messages
        self._most_bytes = most_bytes
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._reader = messages.Reader(foreign=True)
        self._got: deque[dict[str, Any]] = deque()
        self._unread = 0

    def send(self, message: Mapping[str, Any], within_s: float = 10.0) -> None:
        """Raises LineLost."""
        try:
            self.connection.settimeout(within_s)
            self.connection.sendall(messages.encode(message))
        except OSError as error:
            raise self._lost(_reason(error)) from error

    def receive(self, within_s: float) -> dict[str, Any]:
        """Raises LineLost."""
        deadline = time.monotonic() + within_s
        while not self._got:
            left = deadline - time.monotonic()
            if left <= 0:
                raise self._lost(f"no answer within {within_s:.0f} s")
            self.connection.settimeout(left)
            self.take()
        return self._got.popleft()

    def take(self) -> None:
        """Reads what is there. Raises LineLost."""
        try:
            data = self.connection.recv(_CHUNK)
        except TimeoutError:
            return
        except OSError as error:
            raise self._lost(_reason(error)) from error
        if not data:
            raise self._lost("the connection was closed")
        self._unread += len(data)
        try:
            found = list(self._reader.feed(data))
        except messages.BrokenFrame as error:
            raise self._lost(f"it speaks another language: {error}") from error
        if found:
            self._unread = 0
        elif self._unread > self._most_bytes:
            raise self._lost(f"a message of more than {self._most_bytes:,} bytes")
        self._got.extend(found)

    def next_message(self) -> dict[str, Any] | None:
        """What was taken already."""
        return self._got.popleft() if self._got else None

    def refuse(self, why: str) -> None:
        """Says so, where somebody listens, and closes."""
        with contextlib.suppress(LineLost):
            self.send({"refused": why}, within_s=1.0)
        self.close()

    def close(self) -> None:
        self.connection.close()

    def _lost(self, reason: str) -> LineLost:
        return LineLost(f"{self.name}: {reason}" if self.name else reason)


def _reason(error: OSError) -> str:
    return error.strerror or str(error) or type(error).__name__


def connected(
    address: tuple[str, int], within_s: float, source: str = "", most_bytes: int = MOST_BYTES
) -> Line:
    """Raises OSError."""
    own = (source, 0) if source else None
    connection = socket.create_connection(address, timeout=within_s, source_address=own)
    return Line(connection, most_bytes)
