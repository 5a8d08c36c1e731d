"""Notes of the plugin host to people: traces, deprecations, hooks that nothing calls.

They go to standard error, unless a run or a worker listens (`hear`).
"""

from __future__ import annotations

from collections.abc import Callable

from ttf.text.terminal import echo

Listener = Callable[[str], None]


def to_standard_error(text: str) -> None:
    echo(f"note: {text}", err=True)


_listener: Listener = to_standard_error


def say(text: str) -> None:
    _listener(text)


def hear(listener: Listener | None) -> None:
    """Sends notes to `listener`; None: to standard error again."""
    global _listener
    _listener = listener or to_standard_error
