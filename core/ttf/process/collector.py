"""Python's garbage collector in processes that are ours alone, while they load large libraries."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def paused_for_imports() -> Iterator[None]:
    """Imports inside are not interrupted by collections, and no later collection visits their objects.

    torch brings several hundred thousand objects that live until the process ends. Python visits
    them again and again while they are made, and three more times when it exits: a quarter of the
    processor time of a short process.

    Only once in a process: later there may be garbage, which must not be kept for ever. Not for the
    user's own process, for the same reason.
    """
    if gc.get_freeze_count():
        yield
        return
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_enabled:
            gc.enable()
