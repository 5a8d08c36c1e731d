"""Writing containers: checks for disk space first, and removes the output on failure."""

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
from ttf.rundir.outputs import refuse_special
from ttf.text.numbers import size

BLOCK_BYTES: Final = 16 << 20  # Part of an array that the streaming commands hold at a time.

_WIDTHS: Final[dict[str, int]] = {
    "float32": 4,
    "float16": 2,
    "bfloat16": 2,
    "int32": 4,
    "int64": 8,
    "uint8": 1,
}


def check_output(uri: str, *, overwrite: bool) -> None:
    """Raises ConfigError for an unknown ending, a device or pipe, or a file that exists; call before
    any work."""
    if is_local(uri):
        refuse_special(Path(uri))
    storage_for(uri, output=True)
    if is_local(uri) and Path(uri).exists() and not overwrite:
        raise ConfigError(
            f"{uri} already exists.", hint="Add --overwrite, or choose another output."
        )


@contextmanager
def writing(uri: str, storage: str = "auto", *, needed_bytes: int = 0) -> Iterator[StoreWriter]:
    """Yields a writer that is committed at the end of the block. It is aborted if the block raises
    or on SIGTERM (then the block raises Stopped)."""
    if is_local(uri):
        make_room(Path(uri).absolute().parent, needed_bytes)
    stopped = f"Stopped by SIGTERM; nothing was written to {uri}."
    with sigterm_raised(stopped), written_store(uri, storage) as writer:
        yield writer


@contextmanager
def sigterm_raised(message: str) -> Iterator[None]:
    """Turns the first SIGTERM into an exception, so that cleanup runs; later ones are ignored.

    Only in the main thread, and only if the signal has no handler yet.
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
    """Makes the folder; StorageError if it has no space for `needed_bytes` more."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(folder).free
    except OSError as error:
        raise storage_error(error, str(folder)) from error
    if needed_bytes > free:
        raise StorageError(
            f"{folder} has {size(free)} of free space, but {size(needed_bytes)} are needed.",
            hint="Free some space, or choose another folder.",
        )


def array_bytes(shape: tuple[int, ...], dtype: DType) -> int:
    return math.prod(shape) * _WIDTHS[dtype]


def block_rows(shape: tuple[int, ...], itemsize: int = 4) -> int:
    """Number of rows of such an array in a block."""
    return max(1, BLOCK_BYTES // max(1, math.prod(shape[1:]) * itemsize))
