"""Reads from a file on the cache's disk: cold (from the disk) and hot (from memory).

The file is unlinked as soon as it is open: nothing stays behind, however the process ends.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import random
import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ttf.contracts import Progress
from ttf.machine.measured import Figure
from ttf.rundir.cache import cache_dir
from ttf.tools.bench.ceilings import figure_of

BYTES: Final = 256 << 20
LEAST_BYTES: Final = 16 << 20
FREE_BYTES: Final = 1 << 30  # must stay free on the disk
# A page; a chunk; a query of 100 steps x 768 float32. Multiples of a page, for O_DIRECT.
PIECES: Final = (4096, 65_536, 307_200)
FIGURES: Final = 2 * (1 + len(PIECES))
_CHUNK: Final = 4 << 20
_WRITE_S: Final = 1.5
_TURN_S: Final = 0.1
_REPEATS: Final = 3


@dataclass(frozen=True, kw_only=True)
class _File:
    size: int
    cached: int  # descriptor that reads through the page cache
    direct: int | None  # descriptor that bypasses the cache, if the file system can


def measure(progress: Progress) -> tuple[dict[str, Figure], tuple[str, ...]]:
    """Figures by name, and notes about them."""
    folder = cache_dir()
    folder.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(folder).free
    if free < BYTES + FREE_BYTES:
        note = (
            f"Reads were not measured: {folder} has {free / 2**30:.1f} GiB of free space. The "
            f"test file needs {BYTES / 2**30:.2f} GiB, and {FREE_BYTES / 2**30:.0f} GiB must stay "
            "free."
        )
        return {}, (note,)
    try:
        with _file(folder) as file:
            return _measure(file, progress)
    except OSError as error:
        return {}, (f"Reads were not measured: {error.strerror} in {folder}.",)


def _measure(file: _File, progress: Progress) -> tuple[dict[str, Figure], tuple[str, ...]]:
    figures: dict[str, Figure] = {}
    for temperature in ("cold", "hot"):
        for piece in (None, *PIECES):
            name = f"{temperature} {piece or 'sequential'}"
            rates = [_rate(file, piece, temperature == "cold", seed) for seed in range(_REPEATS)]
            figures[name] = figure_of(rates, "GB/s")
            progress(len(figures), FIGURES)
    how = (
        "O_DIRECT, without the page cache"
        if file.direct is not None
        else "after a request to drop the file from the page cache (the system may ignore it)"
    )
    size = f"a file of {file.size >> 20} MiB"
    return figures, (
        f"Cold reads: {how}; {size}. Caches of the host or the disk may still speed them up.",
    )


def _rate(file: _File, piece: int | None, cold: bool, seed: int) -> float:
    """GB/s of one turn, which ends after `_TURN_S` or with the file."""
    length = piece or _CHUNK
    places = range(file.size // length)
    order = list(places) if piece is None else random.Random(seed).sample(places, len(places))
    descriptor = file.direct if cold and file.direct is not None else file.cached
    if cold:
        _forget(file.cached)
    else:
        _warm(file)
    with mmap.mmap(-1, length) as buffer:  # begins at a page, as O_DIRECT asks
        done, began = 0, time.perf_counter()
        for place in order:
            done += os.preadv(descriptor, [buffer], place * length)
            if time.perf_counter() - began > _TURN_S:
                break
        return done / (time.perf_counter() - began) / 1e9


def _forget(descriptor: int) -> None:
    if hasattr(os, "posix_fadvise"):
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        # Pieces are read one by one, without read-ahead.
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_RANDOM)


def _warm(file: _File) -> None:
    if hasattr(os, "posix_fadvise"):
        os.posix_fadvise(file.cached, 0, 0, os.POSIX_FADV_NORMAL)
    with mmap.mmap(-1, _CHUNK) as buffer:
        for at in range(0, file.size, _CHUNK):
            os.preadv(file.cached, [buffer], at)


@contextlib.contextmanager
def _file(folder: Path) -> Iterator[_File]:
    """Raises OSError."""
    with contextlib.ExitStack() as open_files:
        written, name = tempfile.mkstemp(prefix=".ceilings-", dir=folder)
        open_files.callback(os.close, written)
        try:
            direct = _direct(name)
        finally:
            Path(name).unlink()
        if direct is not None:
            open_files.callback(os.close, direct)
        size = _fill(written)
        if direct is not None and not _reads(direct):
            direct = None
        yield _File(size=size, cached=written, direct=direct)


def _direct(name: str) -> int | None:
    if not hasattr(os, "O_DIRECT"):
        return None
    try:
        return os.open(name, os.O_RDONLY | os.O_DIRECT)
    except OSError:  # tmpfs, some network file systems
        return None


def _reads(descriptor: int) -> bool:
    # Some file systems accept the flag and refuse the read.
    with mmap.mmap(-1, PIECES[0]) as buffer:
        try:
            return os.preadv(descriptor, [buffer], 0) == PIECES[0]
        except OSError:
            return False


def _fill(descriptor: int) -> int:
    """Writes and syncs, until `BYTES` or `_WRITE_S`. Returns the bytes written."""
    block = random.Random(0).randbytes(_CHUNK)  # nothing to compress
    size, began = 0, time.perf_counter()
    while size < BYTES:
        for _ in range(LEAST_BYTES // _CHUNK):
            size += os.pwrite(descriptor, block, size)
        os.fsync(descriptor)
        if time.perf_counter() - began > _WRITE_S:
            break
    return size
