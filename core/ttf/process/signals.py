"""Signals as a request to stop at the next step boundary, and as events to wait for."""

from __future__ import annotations

import contextlib
import selectors
import signal
import socket
import threading
from types import FrameType
from typing import Any, Final, Self

SIGNALS = (signal.SIGINT, signal.SIGTERM)
_CHUNK: Final = 1 << 16


class StopAsked(Exception):
    """Raised at a step boundary after a first signal; the trainer saves and ends the run."""

    def __init__(self, signum: int) -> None:
        super().__init__(signal.Signals(signum).name)
        self.signum = signum


class StopRequest:
    """Handles SIGINT and SIGTERM while entered: the first asks for a stop at the next step
    boundary, the second goes to the previous handler. Does nothing outside the main thread."""

    def __init__(self) -> None:
        self._signum = 0
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        # Python lets the main thread alone set handlers, and runs them there.
        if threading.current_thread() is threading.main_thread():
            self._before = {s: signal.signal(s, self._on_signal) for s in SIGNALS}
        return self

    def __exit__(self, *_: object) -> None:
        self._restore()

    def _on_signal(self, signum: int, frame: FrameType | None) -> None:
        self.ask(signum)
        self._restore()

    def ask(self, signum: int) -> None:
        """From any thread: has the effect of a first signal."""
        self._signum = signum

    def _restore(self) -> None:
        _put_back(self._before)
        self._before = {}

    @property
    def signum(self) -> int:
        """The signal that asks for an end; 0: none."""
        return self._signum

    def asked(self) -> bool:
        """For what only waits meanwhile and does not end by itself."""
        return bool(self._signum)

    def raise_if_asked(self) -> None:
        if self._signum:
            raise StopAsked(self._signum)


class Signals:
    """Signals as events to wait for. Restores the previous handlers at exit.

    Does nothing outside the main thread: only that thread may handle signals.
    """

    def __init__(self, *wanted: signal.Signals) -> None:
        self._wanted = wanted
        self._before: dict[int, Any] = {}
        self._ours, self._theirs = socket.socketpair()
        self._pending: list[int] = []
        self.seen: list[int] = []  # also those that nobody took
        self._wakeup: int | None = None  # Of before; None: it was left alone.

    def fileno(self) -> int:
        return self._ours.fileno()

    def take(self) -> list[int]:
        """Returns the signals that arrived since the last call, in order."""
        with contextlib.suppress(BlockingIOError):
            while self._ours.recv(_CHUNK):
                pass
        taken, self._pending = self._pending, []
        return taken

    def __enter__(self) -> Self:
        for end in (self._ours, self._theirs):
            end.setblocking(False)
        if threading.current_thread() is threading.main_thread():
            # A signal that arrives between our last look and the wait would be slept over: Python
            # runs its handler and then waits on (PEP 475). The byte in the socket ends the wait.
            self._wakeup = signal.set_wakeup_fd(self._theirs.fileno(), warn_on_full_buffer=False)
            self._before = {s: signal.signal(s, self._on_signal) for s in self._wanted}
        return self

    def __exit__(self, *_: object) -> None:
        _put_back(self._before)
        if self._wakeup is not None:
            signal.set_wakeup_fd(self._wakeup)
            self._wakeup = None
        self._ours.close()
        self._theirs.close()

    def _on_signal(self, signum: int, _: object) -> None:
        self._pending.append(signum)
        self.seen.append(signum)


def wait_for(signals: Signals, timeout_s: float) -> None:
    """Waits for a signal, at most `timeout_s`."""
    with selectors.DefaultSelector() as selector:
        selector.register(signals, selectors.EVENT_READ)
        selector.select(max(0.0, timeout_s))


def _put_back(handlers: dict[int, Any]) -> None:
    for signum, handler in handlers.items():
        # None: it was installed by C code, and cannot be put back from here
        signal.signal(signum, signal.SIG_DFL if handler is None else handler)
