"""Writing containers: room on the disk asked for first, nothing left behind when it fails."""

from __future__ import annotations

import math
import shutil
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Final

from ttf.contracts import DType, StoreWriter
from ttf.errors import ConfigError, Stopped, StorageError, storage_error
from ttf.host.plugins import is_local, storage_for, written_store
from ttf.text.numbers import size

BLOCK_BYTES: Final = 16 << 20
"""What the streaming commands hold of an array at a time."""

_WIDTHS: Final[dict[str, int]] = {
    "float32": 4,
    "float16": 2,
    "bfloat16": 2,
    "int32": 4,
    "int64": 8,
    "uint8": 1,
}


def check_output(uri: str, *, overwrite: bool) -> None:
    """ConfigError for an ending that nothing writes, or a file that is there; before any work."""
    storage_for(uri, output=True)
    if is_local(uri) and Path(uri).exists() and not overwrite:
        raise ConfigError(f"{uri}: already there.", hint="Add --overwrite, or name another output.")


@contextmanager
def writing(uri: str, storage: str = "auto", *, needed_bytes: int = 0) -> Iterator[StoreWriter]:
    """A writer that is committed at the end of the block, and aborted if the block raises or the
    process is told to end (SIGTERM: then Stopped is raised in the block)."""
    if is_local(uri):
        make_room(Path(uri).absolute().parent, needed_bytes)
    stopped = f"Stopped by SIGTERM; nothing was written to {uri}."
    with sigterm_raised(stopped), written_store(uri, storage) as writer:
        yield writer


@contextmanager
def sigterm_raised(message: str) -> Iterator[None]:
    """Turns the first SIGTERM into an exception, so that cleaning up runs; more do not disturb it.

    Only in the main thread, and only where nobody handles the signal already.
    """
    ours = threading.current_thread() is threading.main_thread()
    if not ours or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return

    def stop(signum: int, frame: FrameType | None) -> None:
        signal.signal(signum, signal.SIG_IGN)
        raise Stopped(signum, message)

    signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def make_room(folder: Path, needed_bytes: int) -> None:
    """Makes the folder; StorageError if it cannot hold `needed_bytes` more."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(folder).free
    except OSError as error:
        raise storage_error(error, str(folder)) from error
    if needed_bytes > free:
        raise StorageError(
            f"{folder} has {size(free)} free, {size(needed_bytes)} are needed.",
            hint="Free some space or choose another folder.",
        )


def array_bytes(shape: tuple[int, ...], dtype: DType) -> int:
    """Of an array as it is stored."""
    return math.prod(shape) * _WIDTHS[dtype]


def block_rows(shape: tuple[int, ...], itemsize: int = 4) -> int:
    """How many rows of such an array make a block."""
    return max(1, BLOCK_BYTES // max(1, math.prod(shape[1:]) * itemsize))
