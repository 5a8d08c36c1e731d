"""Signals that end a command by an exception, so that no process and no folder is left behind."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NoReturn

_OF_A_SIGNAL: Final = 128
"""What a shell adds to its number."""


@contextlib.contextmanager
def handled(signals: Iterable[int], handler: Callable[[int, Any], object]) -> Iterator[None]:
    before = {signum: signal.signal(signum, handler) for signum in signals}
    try:
        yield
    finally:
        for signum, earlier in before.items():
            signal.signal(signum, earlier)


def ended_as_asked() -> contextlib.AbstractContextManager[None]:
    """SIGTERM and a terminal that is closed end us in order."""

    def leave(signum: int, frame: Any) -> NoReturn:
        raise SystemExit(_OF_A_SIGNAL + signum)

    wanted = (signal.SIGTERM, signal.SIGHUP)
    return handled([s for s in wanted if signal.getsignal(s) != signal.SIG_IGN], leave)
