"""Reads files of JSON lines that may grow, be torn by a death, or be replaced."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from ttf.errors import EntryRefused
from ttf.rundir.confined import open_inside, parsed_line

_BLOCK: Final = 1 << 20
_SEARCHED: Final = 32 << 20  # The last bytes of a file that are searched for a line.


def parsed(lines: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    return (value for line in lines if (value := parsed_line(line)) is not None)


class Tail:
    """Whole new lines at every call; at the first call, those of the last `backlog` bytes.

    A file that was replaced or became shorter is started again, and `anew` is True until the next
    call: a resumed run writes its metrics again, without the steps after its checkpoint.
    """

    def __init__(self, path: Path, inside: Path, backlog: int) -> None:
        self.path = path
        self._inside = inside
        self.anew = False
        self._backlog = backlog
        self._file: tuple[int, int] | None = None
        self._offset = 0

    def lines(self) -> list[bytes]:
        try:
            with open_inside(self.path, self._inside) as file:
                return self._new(file.fileno())
        except (FileNotFoundError, EntryRefused):
            self.anew = self._file is not None
            self._file = None
            return []

    def _new(self, fd: int) -> list[bytes]:
        # Asked of the open file, not of its name: a rename in between would mix two files. The size
        # is asked once: what is appended while we read is the next call's.
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
        # A line without its end is half written, or torn for good: the next call reads it again.
        end = data.rfind(b"\n") + 1
        self._file = identity
        self._offset = begin + end
        found = data[:end].split(b"\n")[:-1]
        return found[1:] if cut else found


def last_with(path: Path, inside: Path, mark: bytes) -> bytes:
    """The last whole line that contains `mark`, searched from the end; b"" if there is none."""
    try:
        with open_inside(path, inside) as file:
            end = file.seek(0, os.SEEK_END)
            stop = max(0, end - _SEARCHED)
            rest = b""
            while end > stop:
                begin = max(stop, end - _BLOCK)
                block = os.pread(file.fileno(), end - begin, begin) + rest
                if found := _in_block(block, mark, whole=begin == 0):
                    return found
                # The line that the block begins within is looked at with the block before.
                rest = block[: block.find(b"\n") + 1] or block
                end = begin
    except (OSError, EntryRefused):
        return b""
    return b""


def _in_block(block: bytes, mark: bytes, *, whole: bool) -> bytes:
    # `whole`: the block begins at the start of a line.
    at = block.rfind(mark)
    while at >= 0:
        begin, end = block.rfind(b"\n", 0, at) + 1, block.find(b"\n", at)
        if end >= 0 and (begin or whole):
            return block[begin:end]
        at = block.rfind(mark, 0, at)
    return b""
