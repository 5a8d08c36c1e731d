"""CRC-32C (Castagnoli), which zarr puts behind a shard's index; the standard library has none."""

from __future__ import annotations

import functools
import importlib.util


def crc32c(data: bytes) -> int:
    """The checksum of a few kilobytes to megabytes.

    >>> hex(crc32c(b"123456789"))
    '0xe3069283'
    """
    if importlib.util.find_spec("google_crc32c") is not None:
        import google_crc32c

        return int(google_crc32c.value(data))
    table, crc = _table(), 0xFFFFFFFF
    for byte in data:
        crc = (crc >> 8) ^ table[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


@functools.cache
def _table() -> tuple[int, ...]:
    table = []
    for crc in range(256):
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
        table.append(crc)
    return tuple(table)
