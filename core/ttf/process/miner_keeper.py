"""The keeper: a process beside the worker that ends what the worker started, when it is gone.

The kernel ends the worker with its parent, even within native code, but not the worker's children.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable
from typing import Final

from ttf.process import descendants
from ttf.process.lifeline import wake_when_parent_ends

_LOOK_EVERY_S: Final = 0.2


def start(our_pipes: Iterable[int]) -> None:
    """Forks it off. Only for a process that has one thread and loaded no library yet: a fork after
    any OpenMP work hangs. It shares our memory and holds none of our pipes."""
    worker = os.getpid()
    if os.fork():
        return
    try:
        for fd in (0, 1, 2, *our_pipes):
            with contextlib.suppress(OSError):
                os.close(fd)
        wake_when_parent_ends()
        while os.getppid() == worker:
            time.sleep(_LOOK_EVERY_S)
        descendants.kill(worker, os.environ[descendants.MARK])
        descendants.remove_marks(worker)
    finally:
        os._exit(0)
