"""Reads the steps of the offline files of Weights & Biases, which its Python package only writes.

A file is a header and blocks of 32 KiB of records, as LevelDB has them; a record is a message of the
library's own protocol. What a killed process left at the end is passed over.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from ttf import open_inside

_BLOCK: Final = 32768
_HEADER: Final = 7
_RECORD: Final = struct.Struct("<IHB")
_MOST_BYTES: Final = 1 << 30
_FULL, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4


def history(path: Path, inside: Path) -> Iterator[tuple[int, dict[str, str]]]:
    """Each step, with its values as JSON texts, of a file below `inside`."""
    from google.protobuf.message import DecodeError
    from wandb.proto import wandb_internal_pb2

    for data in _records(path, inside):
        record = wandb_internal_pb2.Record()
        try:
            record.ParseFromString(data)
        except DecodeError:
            return
        if record.WhichOneof("record_type") == "history":
            yield int(record.history.step.num), _values(record.history.item)


def _values(items: Any) -> dict[str, str]:
    return {item.key or "/".join(item.nested_key): item.value_json for item in items}


def _records(path: Path, inside: Path) -> Iterator[bytes]:
    with open_inside(path, inside) as file:
        raw = file.read(_MOST_BYTES)
    at, parts = _HEADER, b""
    while at + _RECORD.size <= len(raw):
        if _BLOCK - at % _BLOCK < _RECORD.size:
            at += _BLOCK - at % _BLOCK
            continue
        checksum, length, kind = _RECORD.unpack_from(raw, at)
        data = raw[at + _RECORD.size : at + _RECORD.size + length]
        known = zlib.crc32(data, zlib.crc32(bytes([kind])))
        if len(data) < length or checksum != known or kind not in (_FULL, _FIRST, _MIDDLE, _LAST):
            return
        at += _RECORD.size + length
        parts = data if kind in (_FULL, _FIRST) else parts + data
        if kind in (_FULL, _LAST):
            yield parts
