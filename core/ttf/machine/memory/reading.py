"""A limit of memory while a command reads files of others.

A small file can say in many ways that it unpacks to any size, in formats whose libraries do not
count. So the kernel counts: `RLIMIT_DATA`, which is what malloc and mmap give to this process. Linux
only; elsewhere nothing is limited. Only for a process of our own: it holds for all threads.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import resource
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from ttf.errors import BadData, ConfigError, TtfError
from ttf.text.numbers import parse_bytes, size

VARIABLE: Final = "TTF_READ_MEMORY"
ROOM: Final = 900 << 20
_TIMES: Final = 4
_MOST_FILES: Final = 10_000
# What the libraries that read say if the kernel refuses memory.
_REFUSED: Final = (
    "alloc", "out of memory", "not enough memory", "std::bad_", "errno 12",
    "can't start new thread", "null without setting",
)  # fmt: skip


@contextlib.contextmanager
def limited_reading(*inputs: str | Path | None) -> Iterator[None]:
    """Raises BadData for inputs that take far more memory than they are large."""
    room = _room([str(given) for given in inputs if given])
    used = _used()
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    limit = used + room
    if not room or not used or (soft != resource.RLIM_INFINITY and soft <= limit):
        yield
        return
    resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))
    try:
        yield
    except (MemoryError, RuntimeError, SystemError, OSError, TtfError) as error:
        if not _says_refused(error):
            raise
        names = ", ".join(str(given) for given in inputs if given)
        raise BadData(
            f"To read {names} takes more than {size(room)} of memory, and no file of that size "
            "should.",
            hint=f"If you trust it, set another limit: {VARIABLE}=8GB before the command, or 0 for none.",
        ) from error
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def _room(inputs: Iterable[str]) -> int:
    """Bytes that reading may take; 0: any number."""
    given = os.environ.get(VARIABLE, "")
    if given:
        try:
            return parse_bytes(given) if given != "0" else 0
        except ValueError as error:
            raise ConfigError(f"The variable {VARIABLE} is {error}.") from error
    if not sys.platform.startswith("linux"):
        return 0
    return ROOM + _TIMES * sum(_size_of(Path(path)) for path in inputs)


def _size_of(path: Path) -> int:
    with contextlib.suppress(OSError, ValueError):
        if not path.is_dir():
            return path.stat().st_size
        found = (Path(top) / name for top, _, names in os.walk(path) for name in names)
        some = itertools.islice(found, _MOST_FILES)
        return sum(one.stat(follow_symlinks=False).st_size for one in some)
    return 0


def _used() -> int:
    """What counts for the limit already; 0 if it cannot be known."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) << 10 for line in lines if line.startswith("VmData")), 0)


def _says_refused(error: BaseException | None) -> bool:
    """Also of what an error was made from."""
    while error is not None:
        text = str(error).lower()
        if isinstance(error, MemoryError) or any(said in text for said in _REFUSED):
            return True
        error = error.__cause__ or error.__context__
    return False
