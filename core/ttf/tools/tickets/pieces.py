"""Numbers on a connection of their own: a header as a message, then the bytes themselves.

The header says what they are, how many, and their CRC-32. The receiver says "go", takes them in
pieces, and says whether they are whole.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from socket import socket
from typing import Any, Final

from ttf.process.line import LineLost, connected

PIECE_BYTES: Final = 1 << 18
_ANSWER_S: Final = 60.0


class Arriving:
    """The receiver's part; the bytes stay in memory, so the receiver bounds `size`."""

    def __init__(self, header: Mapping[str, Any], size: int) -> None:
        """`size`: how many bytes are expected, whatever the header says."""
        self.header = header
        self.data = bytearray()
        self._size = size

    @property
    def fits(self) -> bool:
        return bool(self.header.get("bytes") == self._size)

    def take(self, connection: socket) -> bool | None:
        """None: there is more to come; else whether all of it is here and right."""
        left = self._size - len(self.data)
        try:
            data = connection.recv(min(PIECE_BYTES, left)) if left else b""
        except TimeoutError:
            return None
        except OSError:
            data = b""
        self.data += data
        if data and len(data) < left:
            return None
        whole = len(self.data) == self._size
        return whole and zlib.crc32(self.data) == self.header.get("crc")


def send_bytes(
    address: tuple[str, int],
    header: Mapping[str, Any],
    data: bytes,
    beat: Callable[[], None],
) -> None:
    """`beat` is called between pieces. Raises LineLost if they did not arrive whole."""
    try:
        line = connected(address, _ANSWER_S)
    except OSError as error:
        raise LineLost(error.strerror or str(error)) from error
    try:
        line.send({**header, "bytes": len(data), "crc": zlib.crc32(data)})
        if not line.receive(_ANSWER_S).get("go"):
            raise LineLost("node 0 does not want this block")
        line.connection.settimeout(_ANSWER_S)
        for start in range(0, len(data), PIECE_BYTES):
            line.connection.sendall(data[start : start + PIECE_BYTES])
            beat()
        if not line.receive(_ANSWER_S).get("arrived"):
            raise LineLost("a block did not arrive whole")
    except OSError as error:
        raise LineLost(error.strerror or str(error)) from error
    finally:
        line.close()
