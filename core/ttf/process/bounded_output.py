"""The beginning and the end of what a process writes, however much that is."""

from __future__ import annotations

from typing import Final

HEAD_BYTES: Final = 64 << 10
TAIL_BYTES: Final = 256 << 10


class BoundedOutput:
    """Takes any amount of bytes and keeps a third of a megabyte of it."""

    def __init__(self) -> None:
        self._head = bytearray()
        self._tail = bytearray()
        self.num_bytes = 0
        """All that was written."""

    def add(self, data: bytes) -> None:
        self.num_bytes += len(data)
        room = HEAD_BYTES - len(self._head)
        self._head += data[:room]
        self._tail += data[room:]
        if len(self._tail) > 2 * TAIL_BYTES:  # not at every call: that would copy all of it
            del self._tail[:-TAIL_BYTES]

    def data(self) -> bytes:
        """Beginning and end, with a line between them that says how much is left out."""
        tail = self._tail[-TAIL_BYTES:]
        left_out = self.num_bytes - len(self._head) - len(tail)
        between = f"\n[{left_out:,} bytes left out]\n".encode() if left_out else b""
        return bytes(self._head + between + tail)

    def text(self) -> str:
        return self.data().decode(errors="replace")
