"""The end of a file of lines that grows, or that is written anew while we look."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

_BLOCK: Final = 1 << 20
_SEARCHED: Final = 32 << 20
"""How far back a line is looked for."""


class Tail:
    """Whole new lines at every call; at the first one, those of the last `backlog` bytes.

    A file that was replaced or became shorter (a resumed run drops lines) is begun anew, and
    `anew` says so until the next call.
    """

    def __init__(self, path: Path, backlog: int) -> None:
        self.path, self.anew = path, False
        self._backlog = backlog
        self._file: tuple[int, int] | None = None
        self._offset = 0

    def lines(self) -> list[bytes]:
        try:
            with self.path.open("rb") as file:
                return self._new(file.fileno())
        except FileNotFoundError:
            self.anew = self._file is not None
            self._file = None
            return []

    def _new(self, fd: int) -> list[bytes]:
        stat = os.fstat(fd)
        identity = stat.st_dev, stat.st_ino
        self.anew = self._file is not None and (
            identity != self._file or stat.st_size < self._offset
        )
        begin = self._offset
        if self._file is None or self.anew or stat.st_size - begin > self._backlog:
            begin = max(0, stat.st_size - self._backlog)
        cut = begin > 0 and begin != self._offset  # it begins within a line
        data = os.pread(fd, stat.st_size - begin, begin)
        end = data.rfind(b"\n") + 1
        self._file, self._offset = identity, begin + end
        found = data[:end].split(b"\n")[:-1]
        return found[1:] if cut else found


def last_with(path: Path, mark: bytes) -> bytes:
    """The last whole line that contains `mark`, from the end backwards; b"" where there is none."""
    try:
        with path.open("rb") as file:
            end = file.seek(0, os.SEEK_END)
            stop = max(0, end - _SEARCHED)
            rest = b""
            while end > stop:
                begin = max(stop, end - _BLOCK)
                block = os.pread(file.fileno(), end - begin, begin) + rest
                if found := _in_block(block, mark, whole=begin == 0):
                    return found
                end, rest = begin, block[: block.find(b"\n") + 1] or block
    except OSError:
        return b""
    return b""


def _in_block(block: bytes, mark: bytes, *, whole: bool) -> bytes:
    """`whole`: it begins with a line, not within one."""
    at = block.rfind(mark)
    while at >= 0:
        begin, end = block.rfind(b"\n", 0, at) + 1, block.find(b"\n", at)
        if end >= 0 and (begin or whole):
            return block[begin:end]
        at = block.rfind(mark, 0, at)
    return b""


def parsed(lines: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    """What can be read of them: a line may be half written or torn by a death."""
    for line in lines:
        try:
            value = json.loads(line)
        except ValueError:
            continue
        if isinstance(value, dict):
            yield value
