"""Query vectors that training computed, kept for the next mining round (miner.queries = "reuse").

One file an epoch, `candidates/queries-<epoch>.bin`, with one record a step: its number, a CRC-32,
and the vectors of the step's rows. A record's place follows from its step, so a resumed run, which
repeats the steps after its checkpoint, writes the same bytes to the same places. A checkpoint is
written after the records before it are durable. What is not as it was written is not used.

Shapes: S samples of a step, D width.
"""

from __future__ import annotations

import contextlib
import os
import re
import struct
import threading
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from io import BufferedRandom
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ttf.data.order import Order
from ttf.errors import storage_error
from ttf.rundir.confined import names_in, open_inside, write_inside
from ttf.rundir.durable import fsync_dir, fsync_file, write_at
from ttf.rundir.removing import remove_if_there

AREA: Final = "queries"
_HEADER: Final = struct.Struct("<QI4x")  # step, CRC-32 of step and vectors
_NAME: Final = re.compile(r"queries-(\d{1,18})\.bin")


@dataclass(frozen=True, kw_only=True)
class Record:
    """The vectors of one step; None if they are not there as they were written."""

    step: int
    checksum: int
    vectors_SD: NDArray[np.float32] | None


class TrainedQueries:
    """Owns the files. `make_durable` is for the checkpoint thread, the rest for the main thread."""

    def __init__(self, folder: Path, run: Path, order: Order, dim: int) -> None:
        self._folder = folder
        self._run = run
        self._order = order
        self._dim = dim
        self._open: dict[int, BufferedRandom] = {}
        self._not_durable: set[int] = set()
        self._lock = threading.Lock()  # of the two above

    def write(self, step: int, vectors_SD: NDArray[np.float32]) -> None:
        """Keeps the vectors of a step, in the order of its rows. Raises StorageError."""
        epoch, place = divmod(step, self._order.steps_per_epoch)
        data = np.ascontiguousarray(vectors_SD, dtype="<f4").tobytes()
        record = _HEADER.pack(step, _checksum(step, data)) + data
        path = self._path(epoch)
        try:
            file = self._opened(epoch)
            write_at(file.fileno(), path, AREA, place * self._record_bytes, record)
        except OSError as error:
            raise storage_error(error, str(path)) from error
        with self._lock:
            self._not_durable.add(epoch)

    def make_durable(self) -> None:
        """Returns when every record written so far is on the disk. Raises StorageError."""
        with self._lock:
            # Of their own: the main thread may close its files meanwhile.
            waiting = {epoch: os.dup(self._open[epoch].fileno()) for epoch in self._not_durable}
            self._not_durable.clear()
        try:
            for epoch in list(waiting):
                self._sync(epoch, waiting[epoch])
                os.close(waiting.pop(epoch))
        finally:
            with self._lock:
                self._not_durable |= waiting.keys()
            for fd in waiting.values():
                os.close(fd)

    def before(self, step: int) -> Iterator[Record]:
        """What the steps of one epoch's length before `step` computed, the earliest first."""
        each = self._order.steps_per_epoch
        with contextlib.ExitStack() as files:
            fds: dict[int, int | None] = {}
            for at in range(max(0, step - each), step):
                epoch, place = divmod(at, each)
                if epoch not in fds:
                    fds[epoch] = self._reader(epoch, files)
                yield self._read(fds[epoch], at, place)

    def remove_unneeded(self, oldest_step: int) -> None:
        """Removes what no run resumed at `oldest_step` or later needs. Raises StorageError."""
        each = self._order.steps_per_epoch
        last = oldest_step // each - 1  # A round at that step needs it; the one before it is not.
        try:
            for name in names_in(self._folder, self._run):
                found = _NAME.fullmatch(name)
                if found is not None and int(found[1]) < last:
                    self._close(int(found[1]))
                    remove_if_there(self._folder / name, self._run)
        except OSError as error:
            raise storage_error(error, str(self._folder)) from error

    def close(self) -> None:
        for epoch in list(self._open):
            self._close(epoch)

    @property
    def _record_bytes(self) -> int:
        return _HEADER.size + self._order.samples_per_step * self._dim * 4

    def _path(self, epoch: int) -> Path:
        return self._folder / f"queries-{epoch}.bin"

    def _opened(self, epoch: int) -> BufferedRandom:
        if epoch not in self._open:
            file = write_inside(self._path(epoch), self._run)
            with self._lock:
                self._open[epoch] = file
            fsync_dir(self._folder, AREA)
        return self._open[epoch]

    def _close(self, epoch: int) -> None:
        with self._lock:
            file = self._open.pop(epoch, None)
            self._not_durable.discard(epoch)
        if file is not None:
            file.close()

    def _sync(self, epoch: int, fd: int) -> None:
        path = self._path(epoch)
        try:
            fsync_file(fd, path, AREA)
        except OSError as error:
            raise storage_error(error, str(path)) from error

    def _reader(self, epoch: int, files: contextlib.ExitStack) -> int | None:
        try:
            return files.enter_context(open_inside(self._path(epoch), self._run)).fileno()
        except FileNotFoundError:
            return None

    def _read(self, fd: int | None, step: int, place: int) -> Record:
        absent = Record(step=step, checksum=0, vectors_SD=None)
        if fd is None:
            return absent
        try:
            data = os.pread(fd, self._record_bytes, place * self._record_bytes)
        except OSError:  # a part of the disk that cannot be read: as good as another content
            return absent
        if len(data) != self._record_bytes:
            return absent
        written, checksum = _HEADER.unpack_from(data)
        content = memoryview(data)[_HEADER.size :]
        if written != step or _checksum(step, content) != checksum:
            return absent
        vectors = np.frombuffer(content, dtype="<f4").reshape(-1, self._dim)
        return Record(step=step, checksum=checksum, vectors_SD=vectors)


def _checksum(step: int, data: bytes | memoryview) -> int:
    return zlib.crc32(data, step & 0xFFFFFFFF)
