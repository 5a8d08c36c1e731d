"""Small JSON messages on a pipe or a connection: length, CRC-32, text. Never used for vectors."""

from __future__ import annotations

import json
import os
import struct
import zlib
from collections.abc import Iterator, Mapping
from typing import Any, Final

from ttf.text.limited_json import parsed_json

_HEADER: Final = struct.Struct("<II")
LONGEST: Final = 16 << 20


class BrokenFrame(Exception):
    """The bytes are no message: the writer died in the middle, or something overwrote it."""


def encode(message: Mapping[str, Any]) -> bytes:
    payload = json.dumps(message).encode()
    return _HEADER.pack(len(payload), zlib.crc32(payload)) + payload


def write(fd: int, message: Mapping[str, Any]) -> None:
    """Blocks until the whole message is in the pipe. Raises BrokenPipeError without a reader."""
    left = memoryview(encode(message))
    while left:
        left = left[os.write(fd, left) :]


class Reader:
    """Splits a stream of bytes into messages."""

    def __init__(self, *, longest: int = LONGEST, foreign: bool = False) -> None:
        """`longest`: bytes of a message. `foreign`: of another machine, so its numbers and its depth
        have limits as those of a file."""
        self.longest = longest
        self._foreign = foreign
        self._pending = bytearray()

    def feed(self, data: bytes) -> Iterator[dict[str, Any]]:
        """Yields the messages that `data` completes. Raises BrokenFrame."""
        self._pending += data
        while len(self._pending) >= _HEADER.size:
            length, crc = _HEADER.unpack_from(self._pending)
            if length > self.longest:
                raise BrokenFrame(f"a message announces a length of {length} bytes")
            end = _HEADER.size + length
            if len(self._pending) < end:
                return
            payload = bytes(self._pending[_HEADER.size : end])
            del self._pending[:end]
            if zlib.crc32(payload) != crc:
                raise BrokenFrame("a message does not match its checksum")
            yield _decoded(payload, foreign=self._foreign)


def _decoded(payload: bytes, *, foreign: bool) -> dict[str, Any]:
    try:
        message = parsed_json(payload) if foreign else json.loads(payload)
    except (ValueError, RecursionError) as error:
        raise BrokenFrame(f"a message is not valid JSON ({type(error).__name__})") from None
    if not isinstance(message, dict):
        raise BrokenFrame(f"a message is a {type(message).__name__}, but it must be a JSON object")
    return message
