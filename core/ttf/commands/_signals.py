"""Turns signals into an exception, so that a command leaves no process and no folder behind."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NoReturn

_SIGNAL_EXIT_BASE: Final = 128  # a shell reports 128 + signal number


@contextlib.contextmanager
def handled(signals: Iterable[int], handler: Callable[[int, Any], object]) -> Iterator[None]:
    before = {signum: signal.signal(signum, handler) for signum in signals}
    try:
        yield
    finally:
        for signum, earlier in before.items():
            signal.signal(signum, earlier)


def exit_on_signals() -> contextlib.AbstractContextManager[None]:
    """Within the block, SIGTERM and SIGHUP (closed terminal) raise SystemExit."""

    def leave(signum: int, frame: Any) -> NoReturn:
        raise SystemExit(_SIGNAL_EXIT_BASE + signum)

    wanted = (signal.SIGTERM, signal.SIGHUP)
    return handled([s for s in wanted if signal.getsignal(s) != signal.SIG_IGN], leave)
