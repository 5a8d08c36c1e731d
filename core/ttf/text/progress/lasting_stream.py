"""The stream that progress is written to."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable
from typing import TextIO


class LastingStream:
    """A text stream that never stops the run if its reader left or the disk is full.

    If it was standard error, the process's standard error goes to the null device from then on.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream: TextIO | None = stream

    def write(self, text: str) -> None:
        self._unless_gone(lambda stream: stream.write(text))

    def flush(self) -> None:
        self._unless_gone(lambda stream: stream.flush())

    def _unless_gone(self, act: Callable[[TextIO], object]) -> None:
        if self._stream is None:
            return
        try:
            act(self._stream)
        except UnicodeError:  # a bug of ttf, not of the stream
            raise
        except (OSError, ValueError):  # ValueError: the stream is closed
            self._give_up(self._stream)

    def _give_up(self, stream: TextIO) -> None:
        self._stream = None
        # What is left in its buffer would fail again at exit, and make a good run exit with 120.
        if stream is sys.stderr:
            with contextlib.suppress(OSError, ValueError):
                null = os.open(os.devnull, os.O_WRONLY)
                os.dup2(null, stream.fileno())
                os.close(null)
