"""What the plugin host says beside the matter: traces, deprecations, hooks nobody calls.

It is said where it can be heard: on standard error, unless a run or a worker listens.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

Listener = Callable[[str], None]


def to_standard_error(text: str) -> None:
    print(f"note: {text}", file=sys.stderr, flush=True)


_listener: Listener = to_standard_error


def say(text: str) -> None:
    _listener(text)


def hear(listener: Listener | None) -> None:
    """From now on `listener` hears it; None: standard error again."""
    global _listener
    _listener = listener or to_standard_error
