"""Whether an error means that a limit left too little memory, said in one line."""

from __future__ import annotations

import errno
import os
import traceback
from typing import Final

from ttf.errors import LimitTooLow
from ttf.machine.memory.limits import RLIMITS, Limit, group_limits, rlimits
from ttf.text.numbers import size

_LOADER: Final = "<frozen importlib._bootstrap"  # the files of the import system
# What the dynamic loader, the C library and Python say where memory cannot be had.
_SAID: Final = (
    "failed to map segment",
    "cannot map zero-fill pages",
    "cannot create shared object descriptor",
    "cannot allocate memory",
    "out of memory",
    "std::bad_alloc",
    "returned null without setting an exception",
    "error return without exception set",
    "can't start new thread",
)
_LIBRARIES: Final = ("torch", "numpy", "pydantic", "zarr", "psutil")
_NOT_MEMORY: Final = "static tls block"  # has a fixed size, whatever the limit


def too_little_memory(error: BaseException) -> LimitTooLow | None:
    """The error for the user if a memory limit is in force and `error` is what too little memory
    causes; None otherwise."""
    if not _is_about_memory(error):
        return None
    limit = _limit()
    if limit is None:
        return None
    addresses = limit.source == RLIMITS[0]
    what = "address space" if addresses else "memory"
    detail = f" ({type(error).__name__}: {error})" if str(error) else ""
    return LimitTooLow(
        f"There is not enough {what} {_purpose(error)}: the limit is {size(limit.bytes)} "
        f"({limit.source}).{detail}",
        hint=f"Raise the limit{', e.g. ulimit -v unlimited' if addresses else ''}.",
    )


def _is_about_memory(error: BaseException) -> bool:
    if isinstance(error, MemoryError):
        return True
    if isinstance(error, OSError) and error.errno == errno.ENOMEM:
        return True
    text = str(error).lower()
    kinds = (ImportError, SystemError, OSError, RuntimeError)
    return (
        isinstance(error, kinds) and _NOT_MEMORY not in text and any(said in text for said in _SAID)
    )


def _limit() -> Limit | None:
    """The smallest limit that somebody set. Of cgroups only what is below the machine's memory:
    version 1 has a number for "none"."""
    groups = [limit for _, limit in group_limits()]
    if groups:
        physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        groups = [limit for limit in groups if limit.bytes < physical]
    return min([*rlimits(), *groups], default=None)


def _purpose(error: BaseException) -> str:
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    imported = any(frame.f_code.co_filename.startswith(_LOADER) for frame in frames)
    if not imported and not isinstance(error, (ImportError, SystemError)):
        return "for this command"
    names = (str(frame.f_globals.get("__name__", "")).partition(".")[0] for frame in frames)
    library = next((name for name in names if name in _LIBRARIES), "")
    return f"to load {library or 'the libraries of this command'}"
