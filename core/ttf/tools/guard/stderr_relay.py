"""The command's standard error: kept within bounds, and passed on byte for byte at once.

Not a `ttf.process.conversation.Conversation`: a foreign command sends no messages.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import stat
from typing import Final

from ttf.process.bounded_output import BoundedOutput

STDERR: Final = 2
_CHUNK: Final = 1 << 16
_ROUND: Final = 1 << 20  # Most bytes per call: a flood must not block the other work.
_PIPE_PIECE: Final = 4096  # A writable pipe takes this much without blocking.
_TERMINAL_PIECE: Final = 512
_FILE_PIECE: Final = 1 << 20


class Relay:
    """From the command's end of the pipe to our standard error.

    If nobody reads ours, the command's is not read either: the command blocks as it would without a
    guard, but the guard does not.
    """

    def __init__(self, source: int, sink: int = STDERR) -> None:
        self.source: int | None = source
        self.kept = BoundedOutput()
        self.lost: OSError | None = None  # why not all could be passed on; None if all was
        self._sink: int | None = sink
        self._waiting = bytearray()
        self._last = b"\n"
        self._piece = _piece_of(sink)
        os.set_blocking(source, False)

    @property
    def at_line_start(self) -> bool:
        return self._last == b"\n"

    def readers(self) -> list[int]:
        """The descriptors to wait for before `move` can read."""
        return [] if self.source is None or self._waiting else [self.source]

    def writers(self) -> list[int]:
        return [self._sink] if self._sink is not None and self._waiting else []

    def move(self) -> bool:
        """Moves what it can without blocking. Returns whether there was new data."""
        moved = 0
        while moved < _ROUND and not self._waiting:
            data = self._read()
            if not data:
                break
            moved += len(data)
            self.kept.add(data)
            self._last = data[-1:]
            self._waiting += data if self._sink is not None else b""
            self._write()
        self._write()
        return moved > 0

    def finish(self, wait_s: float) -> bool:
        """Moves the rest after the end of the command. False if it takes longer than `wait_s`."""
        self.move()
        if self._waiting:
            select.select([], self.writers(), [], wait_s)
        return not self.move() and not self._waiting

    def _read(self) -> bytes:
        if self.source is None:
            return b""
        try:
            data = os.read(self.source, _CHUNK)
        except BlockingIOError:
            return b""
        except OSError as error:
            if error.errno != errno.EIO:  # how a pseudo terminal says that all have closed it
                raise
            data = b""
        if not data:
            self.close()
        return data

    def _write(self) -> None:
        while self._waiting and self._sink is not None:
            if not select.select([], [self._sink], [], 0)[1]:
                return
            try:
                done = os.write(self._sink, self._waiting[: self._piece])
            except BlockingIOError:  # our standard error is non-blocking
                return
            except OSError as error:
                self._give_up(error)
                return
            del self._waiting[:done]

    def _give_up(self, error: OSError) -> None:
        # EPIPE: the command must get it too, at its next write. After other errors (a full disk),
        # its output is still kept.
        self.lost = error
        self._sink = None
        self._waiting.clear()
        if error.errno == errno.EPIPE:
            self.close()

    def close(self) -> None:
        if self.source is not None:
            os.close(self.source)
            self.source = None


def _piece_of(fd: int) -> int:
    with contextlib.suppress(OSError):
        if os.isatty(fd):
            return _TERMINAL_PIECE
        if stat.S_ISREG(os.fstat(fd).st_mode):
            return _FILE_PIECE
    return _PIPE_PIECE
