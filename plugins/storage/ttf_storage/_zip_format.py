"""The format of zip files: positions of members, and the records of a zip64 archive.

Reads the central directory, then each member's local header. Writes stored members only (APPNOTE
6.3, section 4.3).
"""

from __future__ import annotations

import struct
import zipfile
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final
from zipfile import ZipInfo

from ttf import BadData, TtfError, open_named
from ttf_storage._mapped import MappedFile, unreadable

LOCAL_HEADER: Final = struct.Struct("<4s5H3L2H")
END_RECORD_BYTES: Final = 22
_END_AND_COMMENT: Final = END_RECORD_BYTES + 0xFFFF
# Of bzip2 and lzma, Python's zipfile unpacks whatever the bytes that it has read hold.
BOUNDED: Final = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
METHODS: Final = {0: "stored", 8: "deflated", 12: "bzip2", 14: "lzma", 93: "zstd"}


def stored_as(member: ZipInfo) -> str:
    return METHODS.get(member.compress_type, f"method {member.compress_type}")


def encrypted(member: ZipInfo) -> bool:
    return bool(member.flag_bits & 0x1)


def read_members(file: MappedFile) -> list[ZipInfo]:
    """Returns every member after a check of the names. Raises BadData if the file is no zip."""
    path = file.path
    if file.size < END_RECORD_BYTES:
        raise BadData(
            f"{path} is truncated: it has {file.size} bytes, fewer than any .npz file.",
            hint="Write or copy the file again.",
        )
    members = _central_directory(file)
    counts = Counter(m.filename for m in members)
    for name, count in counts.items():
        if count > 1:
            raise BadData(
                f"{path} has {count} members named {name!r}, so ttf cannot choose one.",
                hint="Write the file again with numpy.savez.",
            )
    refuse_outside(path, counts)
    return members


def refuse_outside(path: Path, names: Iterable[str]) -> None:
    """Raises BadData if a member's name is a path outside the archive."""
    for name in names:
        if _leaves_the_folder(name):
            raise BadData(
                f"{path} has a member named {name!r}, a path outside the archive.",
                hint="Do not use this file: it may be an attack. Write your own file.",
            )


def data_offset(file: MappedFile, member: ZipInfo) -> int:
    """Returns the offset of a member's content from its local header, checked against the file."""
    where = f"{file.path}: member {member.filename!r}"
    start = member.header_offset
    raw = file.bytes_at(start, LOCAL_HEADER.size) if start >= 0 else b""
    if len(raw) < LOCAL_HEADER.size or not raw.startswith(b"PK\x03\x04"):
        raise BadData(
            f"{where} has no local header at byte {start}: the file is damaged.",
            hint="Write or copy the file again.",
        )
    name_length, extra_length = LOCAL_HEADER.unpack(raw)[9:]
    name = file.bytes_at(start + LOCAL_HEADER.size, name_length)
    if name not in (member.filename.encode(), member.filename.encode("cp437", "replace")):
        raise BadData(
            f"{where} has a different name in its local header ({name[:80]!r}): the file is "
            "damaged."
        )
    offset = int(start + LOCAL_HEADER.size + name_length + extra_length)
    if offset + member.compress_size > file.size:
        raise BadData(
            f"{where} is truncated: it should end at byte {offset + member.compress_size}, but "
            f"the file ends at byte {file.size}.",
            hint="Write or copy the file again.",
        )
    return offset


def _central_directory(file: MappedFile) -> list[ZipInfo]:
    path = file.path
    try:
        with open_named(path) as raw:
            _read_end(raw, path, file.size)
            with zipfile.ZipFile(raw) as archive:
                return archive.infolist()
    except PermissionError as error:
        raise unreadable(path, error) from error
    except TtfError:
        raise
    except Exception as error:  # zipfile meets arbitrary bytes: struct, value and OS errors
        raise _not_a_zip(file, path, error) from error


def _read_end(raw: BinaryIO, path: Path, size: int) -> None:
    """Raises the error of a disk that fails: zipfile would take it for a file that is no zip."""
    raw.seek(max(0, size - _END_AND_COMMENT))
    try:
        raw.read(_END_AND_COMMENT)
    except OSError as error:
        raise unreadable(path, error) from error


def _not_a_zip(file: MappedFile, path: Path, error: Exception) -> BadData:
    head = file.bytes_at(0, 6)
    if head.startswith(b"PK\x03\x04"):
        return BadData(
            f"{path} is truncated or damaged: it begins like an .npz file, but the list of its "
            f"arrays at the end cannot be read ({error}).",
            hint="Write or copy the file again.",
        )
    if head == b"\x93NUMPY":
        return BadData(
            f"{path} is a .npy file with a different file ending.", hint="Rename it to .npy."
        )
    return BadData(f"{path} is not an .npz file: it is not a zip archive.", hint="Check the path.")


def _leaves_the_folder(name: str) -> bool:
    parts = name.replace("\\", "/").split("/")
    return ".." in parts or name.startswith(("/", "\\")) or ":" in parts[0]


# Arrays start on pages: rows of whole pages are then read without extra pages.
ALIGNMENT: Final = 4096

# Of the checksum in a local header. It is known only after the data.
CRC_OFFSET: Final = 14

_FULL: Final = 0xFFFFFFFF
_VERSION: Final = 45
_DOS_DATE: Final = (1 << 5) | 1  # 1980-01-01: equal content gives equal bytes
_PAD_ID: Final = 0x5454
_UTF8: Final = 0x800
_UNIX: Final = 3 << 8
_FILE_MODE: Final = 0o100644 << 16


@dataclass(frozen=True)
class Entry:
    """A finished member, for the central directory."""

    filename: bytes
    offset: int
    size: int
    crc: int


def local_header(filename: bytes, size: int, offset: int, array_start: int) -> bytes:
    """Returns a header at `offset`, padded so that byte `array_start` of the member is on a
    page."""
    sizes = struct.pack("<HHQQ", 1, 16, size, size)
    fixed = 30 + len(filename) + len(sizes) + 4
    pad = -(offset + fixed + array_start) % ALIGNMENT
    extra = sizes + struct.pack("<HH", _PAD_ID, pad) + bytes(pad)
    head = struct.pack(
        "<4s5H3L2H",
        b"PK\x03\x04",
        _VERSION,
        _flags(filename),
        0,
        0,
        _DOS_DATE,
        0,
        _FULL,
        _FULL,
        len(filename),
        len(extra),
    )
    return head + filename + extra


def central_directory(entries: list[Entry], start: int) -> bytes:
    """Returns the directory, which starts at byte `start`, and both end records."""
    body = b"".join(_central_header(e) for e in entries)
    count, end = len(entries), start + len(body)
    zip64_end = struct.pack(
        "<4sQ2H2L4Q",
        b"PK\x06\x06",
        44,
        _UNIX | _VERSION,
        _VERSION,
        0,
        0,
        count,
        count,
        len(body),
        start,
    )
    locator = struct.pack("<4sLQL", b"PK\x06\x07", 0, end, 1)
    short = min(count, 0xFFFF)
    end_record = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, short, short, _FULL, _FULL, 0)
    return body + zip64_end + locator + end_record


def _central_header(entry: Entry) -> bytes:
    extra = struct.pack("<HHQQQ", 1, 24, entry.size, entry.size, entry.offset)
    head = struct.pack(
        "<4s6H3L5H2L",
        b"PK\x01\x02",
        _UNIX | _VERSION,
        _VERSION,
        _flags(entry.filename),
        0,
        0,
        _DOS_DATE,
        entry.crc,
        _FULL,
        _FULL,
        len(entry.filename),
        len(extra),
        0,
        0,
        0,
        _FILE_MODE,
        _FULL,
    )
    return head + entry.filename + extra


def _flags(filename: bytes) -> int:
    return 0 if filename.isascii() else _UTF8
