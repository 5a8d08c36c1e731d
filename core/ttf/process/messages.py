"""Small JSON messages between two processes, and the parent's way to send and take them.

A message on a pipe is its length, its CRC-32, its text. Vectors never travel this way.
"""

from __future__ import annotations

import json
import os
import select
import signal
import struct
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from ttf.process.kept_output import BoundedOutput

if TYPE_CHECKING:
    from ttf.process.child import Child

_HEADER: Final = struct.Struct("<II")
_LONGEST: Final = 16 << 20
_CHUNK: Final = 1 << 16
_FLOOD: Final = 1 << 20
"""Most bytes taken from one pipe in a row."""
_STACKS_S: Final = 1.0
_STACKS_PAUSE_S: Final = 0.02


class BrokenFrame(Exception):
    """The bytes on the pipe are no message: its writer died in the middle, or wrote over it."""


def encode(message: Mapping[str, Any]) -> bytes:
    payload = json.dumps(message).encode()
    return _HEADER.pack(len(payload), zlib.crc32(payload)) + payload


def write(fd: int, message: Mapping[str, Any]) -> None:
    """Blocks until the whole message is in the pipe; BrokenPipeError when nobody reads."""
    left = memoryview(encode(message))
    while left:
        left = left[os.write(fd, left) :]


class Reader:
    """Cuts a stream of bytes back into messages."""

    def __init__(self) -> None:
        self._pending = bytearray()

    def feed(self, data: bytes) -> Iterator[dict[str, Any]]:
        """The messages that `data` completes. Raises BrokenFrame."""
        self._pending += data
        while len(self._pending) >= _HEADER.size:
            length, crc = _HEADER.unpack_from(self._pending)
            if length > _LONGEST:
                raise BrokenFrame(f"a message of {length} bytes was announced")
            end = _HEADER.size + length
            if len(self._pending) < end:
                return
            payload = bytes(self._pending[_HEADER.size : end])
            del self._pending[:end]
            if zlib.crc32(payload) != crc:
                raise BrokenFrame("a message does not match its checksum")
            yield _decoded(payload)


def _decoded(payload: bytes) -> dict[str, Any]:
    try:
        message = json.loads(payload)
    except (ValueError, RecursionError) as error:
        raise BrokenFrame(f"a message is no JSON ({type(error).__name__})") from None
    if not isinstance(message, dict):
        raise BrokenFrame(f"a message is a {type(message).__name__}, not an object")
    return message


class HasFileno(Protocol):
    """Something that a poll can wait for."""

    def fileno(self) -> int: ...


class Conversation:
    """The parent's end of a child's pipes: messages both ways, and its standard error.

    parent                                     child (own session)
      |-- life line: messages, held open ----->|  a thread reads: end of file -> exit at once
      |<-- results: messages ------------------|
      |<-- standard error ---------------------|  kept within bounds
      |<-- pidfd: it is gone ------------------|

    No threads, and nothing blocks but `wait`.
    """

    def __init__(self, child: Child) -> None:
        self.child = child
        self.stderr = BoundedOutput()
        self.garbage = ""
        """Why its messages cannot be read any more; empty while they can."""
        self._reader = Reader()
        self._unsent = bytearray()
        self._open = {child.results, child.stderr}

    @property
    def closed(self) -> bool:
        """It can say no more; its process may live."""
        return self.child.results not in self._open

    def send(self, message: Mapping[str, Any]) -> bool:
        """False where the child has not taken it: it is gone, or hangs with a full pipe. What is
        in the way of a message is sent first, and its rest while its answers are taken."""
        self._unsent += encode(message)
        return self._send_rest()

    def _send_rest(self) -> bool:
        """Half a message must not stay half."""
        while self._unsent:
            try:
                del self._unsent[: os.write(self.child.lifeline, self._unsent)]
            except BlockingIOError:
                return False
            except BrokenPipeError:  # it is dying: its end will be noticed
                self._unsent.clear()
                return False
        return True

    def take(self) -> list[dict[str, Any]]:
        """The messages that came; keeps what came on standard error."""
        self._send_rest()
        self.stderr.add(self._read(self.child.stderr))
        taken: list[dict[str, Any]] = []
        data = self._read(self.child.results)
        if not self.garbage:
            try:
                for message in self._reader.feed(data):
                    taken.append(message)  # noqa: PERF402 - those before the garbage count
            except BrokenFrame as error:
                self.garbage = str(error)
        return taken

    def _read(self, fd: int) -> bytes:
        """All there is, within limits: a flood must not starve the rest."""
        found = bytearray()
        while fd in self._open and len(found) < _FLOOD:
            try:
                data = os.read(fd, _CHUNK)
            except BlockingIOError:
                break
            if not data:  # a poll would report the end of file again and again
                self._open.discard(fd)
            found += data
        return bytes(found)

    def finish(self, grace_s: float = 5.0) -> tuple[int, list[dict[str, Any]]]:
        """The child's return code, and the messages it left; ends it, and what it started.

        What lies in the pipes is read once: a process that escaped the kill may hold them open, so
        that their end is not waited for.
        """
        code = self.child.end(grace_s)
        return code, self.take()

    def dump_stacks(self, file: Path | None) -> None:
        """Has its stacks written, to this file or to standard error: also while it holds the
        interpreter lock, or is stopped."""
        before = _size(file)
        self.child.signal(signal.SIGUSR1)
        self.child.signal(signal.SIGCONT)
        ends_at = time.monotonic() + _STACKS_S
        while _size(file) == before and time.monotonic() < ends_at:
            if self.child.gone_within(_STACKS_PAUSE_S):
                return
            self.stderr.add(self._read(self.child.stderr))
        time.sleep(2 * _STACKS_PAUSE_S)  # the rest of the dump

    def waited_for(self, poll: select.poll) -> None:
        """Adds what would end a wait."""
        for fd in self._open:
            poll.register(fd, select.POLLIN)
        if self.child.pidfd is not None:
            poll.register(self.child.pidfd, select.POLLIN)
        if self._unsent:
            poll.register(self.child.lifeline, select.POLLOUT)


def wait(conversations: Iterable[Conversation], timeout_s: float, *others: HasFileno) -> None:
    """Until one of them has something to take, or has ended; at most so long."""
    poll = select.poll()
    for conversation in conversations:
        conversation.waited_for(poll)
    for other in others:
        poll.register(other, select.POLLIN)
    poll.poll(max(0.0, timeout_s) * 1000)


def _size(file: Path | None) -> int:
    try:
        return 0 if file is None else file.stat().st_size
    except OSError:
        return 0
