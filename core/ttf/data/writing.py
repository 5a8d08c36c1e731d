"""Writing containers: room on the disk asked for first, nothing left behind when it fails."""

from __future__ import annotations

import math
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ttf.data.stores import create_store, is_local
from ttf.errors import StorageError, storage_error

if TYPE_CHECKING:
    from ttf.contracts import DType, StoreWriter

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


@contextmanager
def writing(uri: str, storage: str = "auto", *, needed_bytes: int = 0) -> Iterator[StoreWriter]:
    """A writer that is committed at the end of the block, and aborted if the block raises."""
    if is_local(uri):
        make_room(Path(uri).absolute().parent, needed_bytes)
    writer = create_store(uri, storage)
    try:
        yield writer
        writer.commit()
    except BaseException:
        writer.abort()
        raise


def make_room(folder: Path, needed_bytes: int) -> None:
    """Makes the folder; StorageError if it cannot hold `needed_bytes` more."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(folder).free
    except OSError as error:
        raise storage_error(error, str(folder)) from error
    if needed_bytes > free:
        raise StorageError(
            f"{folder} has {free / 1e9:.2f} GB free, {needed_bytes / 1e9:.2f} GB are needed.",
            hint="Free some space or choose another folder.",
        )


def array_bytes(shape: tuple[int, ...], dtype: DType) -> int:
    """Of an array as it is stored."""
    return math.prod(shape) * _WIDTHS[dtype]


def block_rows(shape: tuple[int, ...], itemsize: int = 4) -> int:
    """How many rows of such an array make a block."""
    return max(1, BLOCK_BYTES // max(1, math.prod(shape[1:]) * itemsize))
