"""What the memory of a process tree consists of, from /proc/PID/smaps: heap, anonymous, shared memory,
files, by process. Linux only.

Shared pages count once for the whole tree (Pss). Pages of mapped files are page cache, which the kernel
frees before it kills anybody; only the pages of a file that a process changed for itself are held.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from io import FileIO
from typing import Final, Literal, NamedTuple

from ttf.process import platform

Kind = Literal[
    "heap", "anonymous", "shared memory", "changed pages of files", "page cache of files"
]
HELD: Final[tuple[Kind, ...]] = ("heap", "anonymous", "shared memory", "changed pages of files")
_GONE: Final = (FileNotFoundError, ProcessLookupError, PermissionError)
_SHARED: Final = ("/dev/shm/", "/SYSV", "/memfd:", "/dev/zero")
_WANTED: Final = (b"Pss:", b"Anonymous:", b"Rss:")


class Part(NamedTuple):
    """Which memory of which process."""

    pid: int
    kind: Kind
    name: str  # of the file or the shared memory; '' for others


class Growth(NamedTuple):
    part: Part
    before: int
    after: int

    @property
    def bytes(self) -> int:
        return self.after - self.before


def parts_of(pids: Iterable[int]) -> dict[Part, int]:
    """Bytes of each part. Processes that are gone or another user's are left out."""
    found: dict[Part, int] = {}
    if not platform.PROC:
        return found
    for pid in pids:
        try:
            with FileIO(f"/proc/{pid}/smaps") as file:
                text = file.readall()
        except _GONE:
            continue
        for part, size in parsed(pid, text):
            if size:
                found[part] = found.get(part, 0) + size
    return found


def parsed(pid: int, text: bytes) -> Iterable[tuple[Part, int]]:
    name, figures = "", dict[bytes, int]()
    for line in text.splitlines():
        words = line.split(None, 5)
        if words and words[0] in _WANTED:
            figures[words[0]] = int(words[1]) << 10
            if words[0] == b"Anonymous:":  # after the others, in each kernel
                yield from _parts(pid, name, figures)
        elif words and b"-" in words[0] and not words[0].endswith(b":"):
            name = words[5].decode(errors="replace") if len(words) > 5 else ""
            figures = {}


def _parts(pid: int, name: str, figures: Mapping[bytes, int]) -> Iterable[tuple[Part, int]]:
    own, pss = figures[b"Anonymous:"], figures.get(b"Pss:", 0)
    if name.startswith(_SHARED) or name.endswith("(deleted)"):
        yield Part(pid, "shared memory", _short(name)), pss
    elif name.startswith("/"):
        yield Part(pid, "changed pages of files", name), min(own, pss)
        yield Part(pid, "page cache of files", name), max(0, pss - own)
    else:
        yield Part(pid, "heap" if name == "[heap]" else "anonymous", ""), pss


def _short(name: str) -> str:
    """The name without what is different for each piece: torch's are 'torch_PID_NUMBER_0'."""
    base = name.removesuffix("(deleted)").strip()
    return "/dev/shm/torch_..." if base.startswith("/dev/shm/torch_") else base


def grown(before: Mapping[Part, int], after: Mapping[Part, int]) -> list[Growth]:
    """What is held more than before, the most first; page cache is left out."""
    found = [
        Growth(part, before.get(part, 0), size)
        for part, size in after.items()
        if part.kind in HELD and size > before.get(part, 0)
    ]
    return sorted(found, key=lambda each: -each.bytes)
