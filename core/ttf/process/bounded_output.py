"""Keeps the beginning and the end of the output of a process."""

from __future__ import annotations

from typing import Final

HEAD_BYTES: Final = 64 << 10
TAIL_BYTES: Final = 256 << 10


class BoundedOutput:
    """Takes any number of bytes and keeps at most 320 KiB."""

    def __init__(self) -> None:
        self._head = bytearray()
        self._tail = bytearray()
        self.num_bytes = 0  # bytes written in total

    def add(self, data: bytes) -> None:
        self.num_bytes += len(data)
        room = HEAD_BYTES - len(self._head)
        self._head += data[:room]
        self._tail += data[room:]
        if len(self._tail) > 2 * TAIL_BYTES:  # not at every call: that would copy all of it
            del self._tail[:-TAIL_BYTES]

    def data(self) -> bytes:
        """Returns beginning and end, with a line between that tells how much is left out."""
        tail = self._tail[-TAIL_BYTES:]
        left_out = self.num_bytes - len(self._head) - len(tail)
        between = f"\n[{left_out:,} bytes left out]\n".encode() if left_out else b""
        return bytes(self._head + between + tail)

    def text(self) -> str:
        return self.data().decode(errors="replace")
