"""Copies in memory, ready to be timed; each copies `BYTES`."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import numpy as np

BYTES: Final = 128 << 20  # more than any cache
_PIECE: Final = 1 << 20


def through(threads: int) -> Callable[[], object]:
    """From memory to memory; numpy releases the interpreter lock."""
    source, target = _buffers(BYTES)
    share = BYTES // threads
    parts = [slice(at * share, (at + 1) * share) for at in range(threads)]
    pool = ThreadPoolExecutor(threads)

    def call() -> None:
        for done in [pool.submit(np.copyto, target[part], source[part]) for part in parts]:
            done.result()

    return call


def into_cache() -> Callable[[], object]:
    """From memory into the same megabyte repeatedly, like a gather of rows."""
    source, target = _buffers(_PIECE)

    def call() -> None:
        for at in range(0, BYTES, _PIECE):
            np.copyto(target, source[at : at + _PIECE])

    return call


def _buffers(target_bytes: int) -> tuple[np.ndarray, np.ndarray]:
    # Written once: untouched pages have no memory.
    source = np.full(BYTES, 1, np.uint8)
    return source, np.full(target_bytes, 2, np.uint8)
