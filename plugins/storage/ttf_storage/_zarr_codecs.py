"""Compressed zarr chunks of others: how large a chunk becomes is known before it is decoded.

A chunk of some megabytes can inflate to many gigabytes where the array declares 48 bytes, a decoder
can read past the end of a chunk that was cut, and a codec can be one that executes what it reads.
So only the codecs below are read, one that compresses at most, and a chunk only if it becomes what
the array declares.
"""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from ttf import BadData

# Whole chunks are decoded, whatever rows are wanted.
MOST_CHUNK_BYTES: Final = 256 << 20
_BLOCK_BYTES: Final = 1 << 20
# Of a chunk of strings of any length, which declares no size.
MOST_TEXT_BYTES: Final = 64 << 20

# Codecs before the compressor. They keep the number of bytes ...
_SAME_SIZE: Final = frozenset({"bitround", "bytes", "delta", "endian", "shuffle", "transpose"})
# ... add a checksum ...
_CHECKSUMS: Final = frozenset({"adler32", "crc32", "crc32c", "fletcher32", "jenkins_lookup3"})
_CHECKSUM_BYTES: Final = 4
# ... or change the type of the numbers, to one of at most eight times the bytes.
_OTHER_TYPE: Final = frozenset({"astype", "fixedscaleoffset", "packbits", "quantize"})
_WIDEST: Final = 8


def check_codecs(codecs: Sequence[str], chunk_bytes: int, where: str) -> None:
    """Raises BadData if chunks of these codecs, in the order of encoding, are not read."""
    known = {*_SIZES, *_SAME_SIZE, *_CHECKSUMS, *_OTHER_TYPE}
    if unknown := [codec for codec in codecs if codec not in known]:
        raise BadData(
            f"{where} has the codec {unknown[0][:80]!r}, which ttf cannot read.",
            hint=(
                f"Write the array with one of {', '.join(sorted(_SIZES))}, or without compression."
            ),
        )
    compressor, _, after = _parts(codecs)
    if not compressor:
        return
    if set(after) - {"crc32c"}:
        raise BadData(
            f"{where} has the codec {after[0]!r} after {compressor!r}, which ttf cannot read.",
            hint="Write the array with one compressor, or without compression.",
        )
    if chunk_bytes > MOST_CHUNK_BYTES:
        raise BadData(
            f"{where} has compressed chunks of {chunk_bytes >> 20:,} MB, but ttf decodes at most "
            f"{MOST_CHUNK_BYTES >> 20} MB at a time.",
            hint="Write the array with smaller chunks, or without compression.",
        )


def check_chunk(raw: Any, codecs: Sequence[str], chunk_bytes: int, where: str) -> None:
    """Raises BadData unless a stored chunk becomes what the array declares."""
    compressor, before, after = _parts(codecs)
    if not compressor:
        return
    data = memoryview(raw).cast("B")
    data = data[: len(data) - _CHECKSUM_BYTES * len(after)]
    other_type = not _OTHER_TYPE.isdisjoint(before)
    expected = chunk_bytes + _CHECKSUM_BYTES * len(_CHECKSUMS.intersection(before))
    most = expected * _WIDEST if other_type else expected
    try:
        size = _SIZES[compressor](data, most)
    except _UNREADABLE as error:
        raise _damaged(where, f"its {compressor} data cannot be read ({error})") from error
    if size > most or (size < expected and not other_type):
        becomes = f"more than {most:,}" if size > most else f"{size:,}"
        raise _damaged(where, f"it decodes to {becomes} bytes, but the array needs {expected:,}")


def check_text_chunk(raw: Any, codecs: Sequence[str], items: int, where: str) -> None:
    """Raises BadData unless a stored chunk becomes `items` strings: their decoder makes room for as
    many as the chunk claims to have."""
    compressor, before, after = _parts(codecs)
    if before:
        raise BadData(
            f"{where} has strings with the codec {before[0]!r}, which ttf cannot read.",
            hint="Write the array without filters.",
        )
    data = memoryview(raw).cast("B")
    data = data[: len(data) - _CHECKSUM_BYTES * len(after)]
    try:
        content = _small(data, compressor) if compressor else data
    except _UNREADABLE as error:
        raise _damaged(where, f"its {compressor} data cannot be read ({error})") from error
    held = int.from_bytes(bytes(content[:4]), "little")
    if held != items:
        raise _damaged(where, f"it has {held:,} strings, but the array needs {items:,}")


def _small(data: memoryview, compressor: str) -> bytes:
    from numcodecs import get_codec

    if _SIZES[compressor](data, MOST_TEXT_BYTES) > MOST_TEXT_BYTES:
        raise ValueError(f"it decodes to more than {MOST_TEXT_BYTES >> 20} MB")
    return bytes(get_codec({"id": compressor}).decode(bytes(data)))


def _parts(codecs: Sequence[str]) -> tuple[str, Sequence[str], Sequence[str]]:
    """The compressor, or an empty string, and the codecs before and after it."""
    at = next((number for number, codec in enumerate(codecs) if codec in _SIZES), len(codecs))
    return "".join(codecs[at : at + 1]), codecs[:at], codecs[at + 1 :]


def _damaged(where: str, why: str) -> BadData:
    return BadData(f"{where} is damaged: {why}.", hint="Write or copy the store again.")


# --- how large compressed data becomes: from its header, or by counting --------------------------


_UNREADABLE: Final = (ValueError, EOFError, OSError, RuntimeError, zlib.error, lzma.LZMAError)


def _zstd(data: memoryview, most: int) -> int:
    descriptor = data[4] if bytes(data[:4]) == b"\x28\xb5\x2f\xfd" and len(data) > 4 else None
    if descriptor is None:
        raise ValueError("it is not zstd data")
    single, kind = bool(descriptor & 0x20), descriptor >> 6
    start = 5 + (not single) + (0, 1, 2, 4)[descriptor & 3]
    length = (int(single), 2, 4, 8)[kind]
    if length:
        return int.from_bytes(data[start : start + length], "little") + (256 if kind == 1 else 0)
    # The frame does not say: it must fit into what is expected.
    import numpy as np
    from numcodecs import Zstd

    Zstd().decode(bytes(data), out=np.empty(most, np.uint8))
    return most


def _blosc(data: memoryview, most: int) -> int:
    if len(data) < 16 or int.from_bytes(data[12:16], "little") != len(data):
        raise ValueError("it is truncated, or it is not blosc data")
    return int.from_bytes(data[4:8], "little")


def _lz4(data: memoryview, most: int) -> int:
    if len(data) < 4:
        raise ValueError("it is truncated")
    return int.from_bytes(data[:4], "little")


def _zlib(data: memoryview, most: int) -> int:
    return _counted(data, most, lambda: zlib.decompressobj(zlib.MAX_WBITS | 32))


def _bz2(data: memoryview, most: int) -> int:
    return _counted(data, most, bz2.BZ2Decompressor)


def _lzma(data: memoryview, most: int) -> int:
    # A header can ask for a dictionary of gigabytes.
    return _counted(data, most, lambda: lzma.LZMADecompressor(memlimit=MOST_CHUNK_BYTES))


def _counted(data: memoryview, most: int, new: Callable[[], Any]) -> int:
    size, left = 0, bytes(data)
    while left and size <= most:
        stream = new()
        while not stream.eof and size <= most:
            block = stream.decompress(left, _BLOCK_BYTES)
            left = getattr(stream, "unconsumed_tail", b"")
            if not block and not left and not stream.eof:
                raise EOFError("it is truncated")
            size += len(block)
        left = stream.unused_data
    return size


_SIZES: Final[Mapping[str, Callable[[memoryview, int], int]]] = {
    "blosc": _blosc,
    "bz2": _bz2,
    "gzip": _zlib,
    "lz4": _lz4,
    "lzma": _lzma,
    "zlib": _zlib,
    "zstd": _zstd,
}
