"""A text stream that a run outlives: once it cannot be written to, it is silent for good."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from typing import TextIO, cast


class _Lasting(io.TextIOBase):
    def __init__(self, stream: TextIO) -> None:
        self._stream: TextIO | None = stream
        self._encoding = getattr(stream, "encoding", None) or "ascii"

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._encoding

    def isatty(self) -> bool:
        return self._stream is not None and self._stream.isatty()

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        if self._stream is not None:
            try:
                self._stream.write(text)
            except (OSError, ValueError) as error:  # ValueError: somebody closed the stream
                self._give_up(error)
        return len(text)

    def flush(self) -> None:
        if self._stream is not None:
            try:
                self._stream.flush()
            except (OSError, ValueError) as error:
                self._give_up(error)

    def _give_up(self, error: Exception) -> None:
        if isinstance(error, UnicodeError):  # a fault of ours, not of the stream
            raise error
        stream, self._stream = self._stream, None
        # What is left in its buffer would fail again at exit, and make a good run exit with 120.
        if stream is sys.stderr:
            with contextlib.suppress(OSError, ValueError):
                null = os.open(os.devnull, os.O_WRONLY)
                os.dup2(null, stream.fileno())
                os.close(null)


def lasting(stream: TextIO) -> TextIO:
    """The stream, except that a reader who left or a full disk never stops the run.

    Where it was standard error, the process's standard error goes nowhere from then on.
    """
    return cast("TextIO", _Lasting(stream))
