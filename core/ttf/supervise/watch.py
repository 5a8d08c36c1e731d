"""What the supervisor waits for: the child's death, its messages, its standard error, signals, a
timer. One selector, no threads."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any, Final, Self

from ttf.process import messages as frames
from ttf.process.child import Child

_CHUNK: Final = 1 << 16
_FLOOD: Final = 1 << 20
"""Most bytes taken from one pipe in a row: a flood must not starve the rest."""


class Signals:
    """Signals as something to wait for; does nothing outside the main thread, whose business they
    are. The handlers before are put back at the end."""

    def __init__(self, *wanted: signal.Signals) -> None:
        self._wanted = wanted
        self._before: dict[int, Any] = {}
        self._ours, self._theirs = socket.socketpair()
        self._pending: list[int] = []
        self._wakeup = -1

    def fileno(self) -> int:
        return self._ours.fileno()

    def take(self) -> list[int]:
        """The signals that arrived since the last call, in order."""
        with contextlib.suppress(BlockingIOError):
            while self._ours.recv(_CHUNK):
                pass
        taken, self._pending = self._pending, []
        return taken

    def __enter__(self) -> Self:
        for end in (self._ours, self._theirs):
            end.setblocking(False)
        if threading.current_thread() is threading.main_thread():
            self._wakeup = signal.set_wakeup_fd(self._theirs.fileno(), warn_on_full_buffer=False)
            self._before = {s: signal.signal(s, self._on_signal) for s in self._wanted}
        return self

    def __exit__(self, *_: object) -> None:
        for signum, handler in self._before.items():
            signal.signal(signum, signal.SIG_DFL if handler is None else handler)
        if self._before:
            signal.set_wakeup_fd(self._wakeup)
        self._ours.close()
        self._theirs.close()

    def _on_signal(self, signum: int, _: object) -> None:
        self._pending.append(signum)


class Watch:
    """Waits for one child and for signals."""

    def __init__(self, child: Child, signals: Signals) -> None:
        self._child = child
        self._reader = frames.Reader()
        self.stderr = bytearray()
        """What the child wrote since somebody took it."""
        self.garbage = ""
        """Why its messages cannot be read any more; empty while they can."""
        self._selector = selectors.DefaultSelector()
        self._selector.register(signals, selectors.EVENT_READ, "signals")
        self._selector.register(child.results, selectors.EVENT_READ, "results")
        self._selector.register(child.stderr, selectors.EVENT_READ, "stderr")
        if child.pidfd is not None:
            self._selector.register(child.pidfd, selectors.EVENT_READ, "death")
        self.dead = False
        """The child has ended, or at least said its last word."""

    def wait(self, timeout_s: float) -> list[dict[str, Any]]:
        """Until something happens, at most so long; the messages that came."""
        messages: list[dict[str, Any]] = []
        for key, _ in self._selector.select(max(0.0, timeout_s)):
            if key.data == "death":
                self.dead = True
            elif key.data == "results":
                messages += self._messages()
            elif key.data == "stderr":
                self._take_stderr()
        return messages

    def drain(self) -> list[dict[str, Any]]:
        """What is left in the pipes of a child that has ended; a grandchild may hold them open, so
        that their end is not waited for."""
        messages = list(self._messages())
        self._take_stderr()
        return messages

    def _messages(self) -> Iterator[dict[str, Any]]:
        data = _read(self._child.results)
        if data is None:
            return
        if not data:
            self._forget(self._child.results)
            if self._child.pidfd is None:
                self.dead = True
            return
        if self.garbage:
            return
        try:
            yield from self._reader.feed(data)
        except frames.BrokenFrame as error:
            self.garbage = str(error)

    def _take_stderr(self) -> None:
        data = _read(self._child.stderr)
        if data:
            self.stderr += data
        elif data is not None:
            self._forget(self._child.stderr)

    def _forget(self, fd: int) -> None:
        with contextlib.suppress(KeyError):
            self._selector.unregister(fd)

    def close(self) -> None:
        self._selector.close()


def wait_for(signals: Signals, timeout_s: float) -> None:
    """Until a signal comes, or so long."""
    with selectors.DefaultSelector() as selector:
        selector.register(signals, selectors.EVENT_READ)
        selector.select(max(0.0, timeout_s))


def _read(fd: int) -> bytes | None:
    """All there is, within limits; b"" at the end of the stream, None where there is nothing."""
    found = bytearray()
    while len(found) < _FLOOD:
        try:
            data = os.read(fd, _CHUNK)
        except BlockingIOError:
            return bytes(found) or None
        if not data:
            return bytes(found)
        found += data
    return bytes(found)


def now() -> float:
    """The clock of all events."""
    return time.monotonic()
