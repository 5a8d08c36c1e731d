"""SIGINT and SIGTERM: the first asks for a stop at the next step boundary, the second is obeyed
at once by whoever handled the signal before us."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any, Self

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StopAsked(Exception):
    """Raised at a step boundary after a first signal; the trainer saves and ends the run."""

    def __init__(self, signum: int) -> None:
        super().__init__(signal.Signals(signum).name)
        self.signum = signum


class StopRequest:
    """Installs the handlers while it is entered; does nothing outside the main thread."""

    def __init__(self) -> None:
        self._signum = 0
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._before = {s: signal.signal(s, self._on_signal) for s in SIGNALS}
        return self

    def __exit__(self, *_: object) -> None:
        self._restore()

    def _on_signal(self, signum: int, frame: FrameType | None) -> None:
        self.ask(signum)
        self._restore()

    def ask(self, signum: int) -> None:
        """From any thread: the same as that signal's first arrival."""
        self._signum = signum

    def _restore(self) -> None:
        for signum, handler in self._before.items():
            # None: it was installed by C code, and cannot be put back from here
            signal.signal(signum, signal.SIG_DFL if handler is None else handler)
        self._before = {}

    def raise_if_asked(self) -> None:
        if self._signum:
            raise StopAsked(self._signum)
