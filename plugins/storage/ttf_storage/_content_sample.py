"""Samples the content of files without checksums, with a limited number of reads.

Small files are read whole; of large files the first bytes, the last, and evenly spaced pieces
between. A change that keeps every size and touches none of these pieces is not noticed. Times and
inodes do not count, so a copy is the same data.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import numpy as np

from ttf import open_named
from ttf_storage._mapped import unreadable

PIECE_BYTES: Final = 4 << 10
# Files read of an array with more files: the first, the last and evenly spaced ones.
FILES: Final = 64
_PIECES: Final = 128  # read of an array, over all its files: half a MiB
_LEAST_PIECES: Final = 4  # of each file that is read, with its first and last piece


def sampled(paths: Sequence[Path], sizes: Sequence[int]) -> Iterator[bytes]:
    """Yields pieces of some files of one array; equal for equal files in any folder."""
    chosen = _evenly(len(paths), FILES)
    pieces = max(_LEAST_PIECES, _PIECES // max(1, len(chosen)))
    for number in chosen:
        try:
            with open_named(paths[number]) as file:
                for offset in _offsets(sizes[number], pieces):
                    file.seek(offset)
                    yield file.read(PIECE_BYTES)
        except OSError as error:
            raise unreadable(paths[number], error) from error


def _offsets(size: int, pieces: int) -> list[int]:
    if size <= pieces * PIECE_BYTES:
        return list(range(0, size, PIECE_BYTES))
    return _evenly(size - PIECE_BYTES + 1, pieces)


def _evenly(count: int, most: int) -> list[int]:
    """Returns at most `most` numbers of range(count), with the first and the last."""
    if count <= most:
        return list(range(count))
    return [int(n) for n in np.linspace(0, count - 1, most).astype(np.int64)]
