"""One connection between two supervisors: JSON messages as on the pipes of a child, and beats.

TCP says nothing of a host that lost its power or its network. So each end says at least every
`BEAT_S` that it is there; who is silent for longer than the limit is lost.
"""

from __future__ import annotations

import contextlib
import errno
import socket
from collections.abc import Mapping
from typing import Any, Final, Literal

from ttf.process import messages
from ttf.supervise.events import now

BEAT_S: Final = 1.0
_CHUNK: Final = 1 << 16
_FLOOD: Final = 1 << 20  # Most bytes taken in a row.
_MOST_UNSENT: Final = 64 << 20
# A supervisor that reaps, explains and writes a death is silent meanwhile.
_LEAST_S: Final = 5.0
_LAST_WORDS_S: Final = 1.0
# What the system says of a host that it cannot reach, sometimes before our limit.
_UNREACHABLE: Final = frozenset(
    {errno.ETIMEDOUT, errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EHOSTDOWN, errno.ENETDOWN}
)
BEAT: Final[Mapping[str, Any]] = {"beat": True}

Lost = Literal["", "silent", "gone"]


class Line:
    """Never blocks. Call `take` often: it also sends."""

    def __init__(
        self, connection: socket.socket, limit_s: float, longest: int = messages.LONGEST
    ) -> None:
        """`longest`: bytes of a message of the other end, until it is `known`."""
        connection.setblocking(False)
        with contextlib.suppress(OSError):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._connection = connection
        self.limit_s = max(limit_s, _LEAST_S)
        self._reader = messages.Reader(longest=longest, foreign=True)
        self._unsent = bytearray()
        self._said_at = self.heard_at = self.since = now()
        self._leaves_at = 0.0
        self.lost: Lost = ""
        self.garbage = ""  # Why its messages cannot be read.

    def fileno(self) -> int:
        return self._connection.fileno()

    def send(self, message: Mapping[str, Any]) -> None:
        if self.lost:
            return
        self._unsent += messages.encode(message)
        self._said_at = now()
        if len(self._unsent) > _MOST_UNSENT:
            self.lost = "silent"
        self._send_rest()

    def _send_rest(self) -> None:
        while self._unsent and not self.lost:
            try:
                del self._unsent[: self._connection.send(self._unsent)]
            except BlockingIOError:
                return
            except OSError as error:
                self._fails(error)

    def take(self) -> list[dict[str, Any]]:
        """The messages since the last call, without beats; notices what is lost."""
        if self.lost:
            return []
        data = self._read()
        taken: list[dict[str, Any]] = []
        try:
            taken = [message for message in self._reader.feed(data) if message != BEAT]
        except messages.BrokenFrame as error:
            self.garbage, self.lost = str(error), "gone"
        if data:
            self.heard_at = now()
        elif not self.lost and now() - self.heard_at > self.limit_s:
            self.lost = "silent"
        if now() - self._said_at >= BEAT_S:
            self.send(BEAT)
        self._send_rest()
        return taken

    def _read(self) -> bytes:
        found = bytearray()
        while len(found) < _FLOOD:
            try:
                data = self._connection.recv(_CHUNK)
            except BlockingIOError:
                break
            except OSError as error:
                self._fails(error)
                break
            if not data:
                self.lost = "gone"
                break
            found += data
        return bytes(found)

    def _fails(self, error: OSError) -> None:
        self.lost = "silent" if error.errno in _UNREACHABLE else "gone"

    def known(self) -> None:
        """The other end has said who it is: its messages may be long."""
        self._reader.longest = messages.LONGEST

    @property
    def silent_s(self) -> float:
        """Since the other end was heard."""
        return now() - self.heard_at

    def leave(self) -> None:
        """Begins to close without waiting: call `has_left` until it is true."""
        self._send_rest()
        self._leaves_at = now() + _LAST_WORDS_S
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_WR)

    def has_left(self) -> bool:
        """What was said last has arrived, or was waited for long enough. The connection is closed
        then; what comes until then is read and means nothing."""
        self._read()
        if not self.lost and now() < self._leaves_at:
            return False
        self._connection.close()
        self.lost = self.lost or "gone"
        return True

    def close(self) -> None:
        """What was said last still arrives, if the other end lives."""
        if not self.lost:
            self._end_in_order()
        self._connection.close()
        self.lost = self.lost or "gone"

    def _end_in_order(self) -> None:
        # A socket that is closed with unread bytes resets the connection, and the last words of it
        # may be lost: read until the other end has closed too.
        ends_at = now() + _LAST_WORDS_S
        with contextlib.suppress(OSError):
            self._connection.settimeout(_LAST_WORDS_S)
            self._connection.sendall(self._unsent)
            self._connection.shutdown(socket.SHUT_WR)
            while now() < ends_at and self._connection.recv(_CHUNK):
                pass
