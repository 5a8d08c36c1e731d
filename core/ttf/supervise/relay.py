"""Passes on what a trainer shows where standard error has no descriptor that a child could write to:
in notebooks, in IDLE, under `contextlib.redirect_stderr`."""

from __future__ import annotations

import codecs
import contextlib
import contextvars
import os
import threading
from typing import Final, Protocol

_CHUNK: Final = 1 << 16
_LEAVE_S: Final = 5.0


class Sink(Protocol):
    def write(self, text: str, /) -> object: ...
    def flush(self) -> object: ...


class Relay:
    """A pipe; a thread writes to `sink` what arrives, until every writer has closed its end."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._source, self.fd = os.pipe()
        # A notebook finds the cell of an output by the context of the code that began it.
        context = contextvars.copy_context()
        self._thread = threading.Thread(
            target=context.run, args=(self._pass_on,), name="ttf-progress", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Returns when all is passed on. May be called twice."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1
            self._thread.join(_LEAVE_S)

    def _pass_on(self) -> None:
        decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        taken = True
        while data := os.read(self._source, _CHUNK):
            if taken:
                taken = self._write(decoder.decode(data))
        os.close(self._source)

    def _write(self, text: str) -> bool:
        # A stream that fails must not end the run, nor must its trainer block: read on, drop it.
        with contextlib.suppress(OSError, ValueError):
            self._sink.write(text)
            self._sink.flush()
            return True
        return False
