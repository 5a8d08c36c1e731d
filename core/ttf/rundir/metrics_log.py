"""metrics.jsonl: a line per event, each step once, and no line lost if a disk is full for a while.

Lines stay in memory until an fsync has stored them: a failed write is repeated at the same
position, and after a failed fsync the file is written again under another name.
"""

from __future__ import annotations

import contextlib
import errno
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from ttf.errors import StorageError, storage_error
from ttf.rundir.confined import open_inside, parsed_line, raw_lines
from ttf.rundir.disk_retry import Patience
from ttf.rundir.durable import file_written_whole, finite
from ttf.rundir.typed_json import is_number

_SYNC_AT_BYTES: Final = 4 << 20
# Held in memory while the disk fails; a run writes some 200 bytes a step.
_MOST_BYTES: Final = 64 << 20
_BLOCK_BYTES: Final = 1 << 20


class MetricsLog:
    """Used by the main thread; another thread may call `make_durable` at the same time."""

    def __init__(
        self,
        path: Path,
        resume_step: int | None,
        *,
        retry_s: float = 0.0,
        say: Callable[[str], None] | None = None,
        area: str = "metrics",
    ) -> None:
        """`resume_step` None starts a new file; otherwise later lines are dropped first. A failing
        disk is retried for `retry_s`, with messages to `say`. `area`: see `ttf.rundir.durable`."""
        self._path = path
        self._say = say or (lambda _: None)
        self._area = area
        self._patience = Patience(retry_s)
        self._state = threading.Lock()
        self._syncing = threading.Lock()
        self._tail = bytearray()  # Lines without fsync; starts at `_durable`.
        self._fsync_failed = False
        self._closed = False
        self.steps_kept = 0  # of those before `resume_step`
        kept: Iterator[bytes] = iter(()) if resume_step is None else _lines_until(path, resume_step)
        with file_written_whole(path, area) as self._file:
            for block in _blocks(self._counted(kept)):
                self._file.write(block)
        self._durable = self._file.size

    def write(self, record: Mapping[str, Any]) -> None:
        """Raises StorageError once the disk has failed for too long, or too much is held in
        memory."""
        line = json.dumps(finite(dict(record)), allow_nan=False).encode() + b"\n"
        try:
            with self._state:
                self._tail += line
                self._write_out()
        except OSError as error:
            self._failed(storage_error(error, str(self._path)))
        else:
            if not self._fsync_failed:
                self._recovered()
        if len(self._tail) >= _SYNC_AT_BYTES and self._patience.error is None:
            self.sync()

    def sync(self) -> None:
        """Makes the lines durable; failures are handled as in `write`."""
        try:
            self.make_durable()
        except StorageError as error:
            self._failed(error)
        else:
            self._recovered()

    def make_durable(self) -> None:
        """Like `sync`, for a checkpoint, which must not be ahead of its metrics: raises
        StorageError at every failure, and says nothing. From any thread."""
        try:
            with self._syncing:
                if self._fsync_failed:
                    self._rewrite_file()
                else:
                    self._sync_in_place()
        except OSError as error:
            raise storage_error(error, str(self._path)) from error

    def close(self) -> None:
        """Writes remaining lines, if the disk takes them; says how many are lost. A second call
        does nothing."""
        if self._closed:
            return
        self._closed = True
        with contextlib.suppress(OSError), self._state:
            self._write_out()
        lost = self._tail[self._file.size - self._durable :].count(b"\n")
        self._file.close()
        if lost:
            self._say(
                f"{lost} lines of {self._path} are lost, because ttf could not write them to "
                "the disk."
            )

    # --- how -------------------------------------------------------------------------------

    def _counted(self, lines: Iterator[bytes]) -> Iterator[bytes]:
        for line in lines:
            self.steps_kept += b'"type": "step"' in line
            yield line

    def _write_out(self) -> None:
        # Writes what the file does not have yet. A failed write left `size` unchanged.
        held_back = bytes(self._tail[self._file.size - self._durable :])
        if held_back:
            self._file.write(held_back)

    def _sync_in_place(self) -> None:
        with self._state:
            self._write_out()
            file = self._file
            end = file.size
        try:
            file.sync()  # lines may be added meanwhile
        except OSError:
            self._fsync_failed = True
            raise
        with self._state:
            del self._tail[: end - self._durable]
            self._durable = end

    def _rewrite_file(self) -> None:
        # Lines before `_durable` come from the file, later lines from memory, because the kernel
        # counts the pages of a failed fsync as written.
        with self._state:
            since = bytes(self._tail)
        with file_written_whole(self._path, self._area) as file:
            for block in _first_bytes(self._path, self._durable):
                file.write(block)
            file.write(since)
        with self._state:
            self._file.close()
            self._file = file
            del self._tail[: len(since)]
            self._durable = file.size
            self._fsync_failed = False
            self._write_out()

    def _failed(self, error: StorageError) -> None:
        first = self._patience.error is None
        self._patience.failed(error)
        if self._patience.used_up or len(self._tail) > _MOST_BYTES:
            raise error
        if first:
            self._say(f"{error} ttf keeps the lines in memory and writes them later. {error.hint}")

    def _recovered(self) -> None:
        if self._patience.succeeded():
            self._say(f"ttf can write to {self._path} again. No line is missing.")


def _lines_until(path: Path, step: int) -> Iterator[bytes]:
    """Whole lines up to a step; drops a line that the last process did not finish.

    A checkpoint is made before the mining of its step, which happens again.
    """
    if not path.is_file():
        return
    for line in raw_lines(path, path.parent):
        record = parsed_line(line)
        # Without its end it may be a part that happens to be valid: '{...}' is whole, 12 of 123 not.
        if record is None or not line.endswith(b"\n"):
            continue
        at = record.get("step", 0)
        if is_number(at) and at < step + (record.get("type") != "mining"):
            yield line


def _blocks(lines: Iterator[bytes]) -> Iterator[bytes]:
    block = bytearray()
    for line in lines:
        block += line
        if len(block) >= _BLOCK_BYTES:
            yield bytes(block)
            block.clear()
    yield bytes(block)


def _first_bytes(path: Path, count: int) -> Iterator[bytes]:
    with open_inside(path, path.parent) as file:
        while count:
            block = file.read(min(count, _BLOCK_BYTES))
            if not block:
                raise OSError(errno.EIO, f"it has become {count:,} bytes shorter", str(path))
            yield block
            count -= len(block)
