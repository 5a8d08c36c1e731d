"""An open .npz or .npy file: mapped arrays, or streams of compressed arrays."""

from __future__ import annotations

import hashlib
import shlex
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final
from zipfile import ZipInfo

import numpy as np
from numpy.typing import NDArray

from ttf import ArrayMissing, BadData, DataCompressed, DType, TtfError, open_named, suggestion
from ttf_storage._cast_rows import CastRows, TurnedRows
from ttf_storage._content_sample import sampled
from ttf_storage._mapped import MappedFile, MappedRows, check_identity
from ttf_storage._npy_header import (
    HEAD_BYTES,
    NpyHeader,
    check_extent,
    check_numbers,
    decoded,
    is_plain,
    parse_header,
    read_as,
    refuse_much_text,
    turned,
)
from ttf_storage._stored_rows import Stream, described
from ttf_storage._zip_format import BOUNDED, data_offset, encrypted, read_members, stored_as

NPY_ARRAY: Final = "vectors"  # name of the one array of a .npy file

_BLOCK_BYTES: Final = 4 << 20
_MARKER: Final = ".dtype"
# The archiver of macOS adds a second member with attributes of the file system for each file.
_MACOS_EXTRAS: Final = "__MACOSX/"


class NpzStore:
    """One map of the file for all its arrays."""

    def __init__(self, uri: str, inside: Path | None = None, marker: str | None = None) -> None:
        """Of a .npy file in a folder that the user named: `inside`, and the type that another file
        says its bits have."""
        self.uri = uri
        path = Path(uri)
        self.container = "npy" if path.suffix.lower() == ".npy" else "npz"
        # Those of members are part of every fingerprint. A .npy file has none.
        self.has_checksums = self.container == "npz"
        self._given_marker = marker
        self._file = MappedFile(path, inside)
        try:
            self._members = self._arrays()
        except BaseException:
            self._file.close()
            raise

    def names(self) -> list[str]:
        return [n for n in self._members if not self._is_marker(n)]

    def source(self, name: str) -> MappedRows | CastRows | TurnedRows:
        member = self._member(name)
        where = self._where(name)
        if member.compress_type:
            raise DataCompressed(
                f"{where} is compressed ({stored_as(member)}), so ttf cannot read single rows of "
                "it.",
                hint=f"Convert it once: {self._convert_line()}",
            )
        offset = self._offset(member)
        header = parse_header(self._file.bytes_at(offset, min(HEAD_BYTES, member.file_size)), where)
        dtype = read_as(header, self._marker(name), where, self._convert_line())
        check_extent(header, member.file_size - header.length, where)
        if not header.shape:
            raise BadData(f"{where} is a single number, but it must have rows.")
        start = offset + header.length

        def digest() -> str:
            return self._digest(member, header, dtype)

        rows: MappedRows | CastRows | TurnedRows
        if is_plain(header, dtype):
            rows = MappedRows(self._file, name, start, header.shape, dtype, digest)
        else:
            converted = TurnedRows if turned(header) else CastRows
            rows = converted(self._file, name, start, header, dtype, digest)
        rows.fingerprint_is_whole = self.has_checksums
        return rows

    def describe(self, name: str) -> Mapping[str, Any]:
        member = self._member(name)

        def declared() -> dict[str, Any]:
            header = self._header(name, member)
            dtype = self._marker(name) or str(header.dtype)
            return {"shape": list(header.shape), "dtype": dtype}

        return described(
            declared,
            lambda: self.source(name),
            stored=stored_as(member),
            size=member.compress_size,
        )

    def stream(self, name: str, block_bytes: int = _BLOCK_BYTES) -> Stream:
        """Streams any array of plain numbers, with any compression or byte order."""
        member, where = self._member(name), self._where(name)
        header = self._header(name, member)
        check_numbers(header, where)
        check_extent(header, member.file_size - header.length, where)
        if header.fortran and len(header.shape) > 1:
            blocks = self._fortran_blocks(name, member, header, block_bytes)
        else:
            blocks = self._row_blocks(name, member, header, block_bytes)
        return Stream(header.shape, header.dtype, self._marker(name), blocks)

    def text(self, name: str) -> NDArray[np.str_]:
        """Returns the strings of an array of one dimension."""
        member, where = self._member(name), self._where(name)
        header = self._header(name, member)
        if header.dtype.kind not in "US" or len(header.shape) != 1:
            raise BadData(f"{where} is {header.dtype} {header.shape}, but it must be strings.")
        check_extent(header, member.file_size - header.length, where)
        refuse_much_text(member.file_size, member.compress_size, where)
        content = memoryview(b"".join(self._pieces(name, member)))[header.length :]
        return decoded(content, header.dtype, where)

    def check_unchanged(self) -> None:
        check_identity(self._file.path, self._file.identity)

    def verify(self) -> Iterator[str]:
        for name, member in self._members.items():
            try:
                if self._is_marker(name):
                    self._marker(name.removesuffix(_MARKER))
                else:
                    header = self._header(name, member)
                    # The size of a pickle is not declared; that it is one is said elsewhere.
                    if not header.dtype.hasobject:
                        check_extent(header, member.file_size - header.length, self._where(name))
                if self.container == "npz":
                    self._check_crc(name, member)
            except TtfError as error:
                yield str(error)

    def close(self) -> None:
        self._file.close()

    # -- members

    def _arrays(self) -> dict[str, ZipInfo]:
        size = self._file.size
        if self.container == "npy":
            parse_header(self._file.bytes_at(0, HEAD_BYTES), self.uri)
            whole = ZipInfo("")
            whole.file_size = whole.compress_size = size
            return {NPY_ARRAY: whole}
        members = read_members(self._file)
        return {
            m.filename.removesuffix(".npy"): m
            for m in members
            if m.filename.endswith(".npy") and not m.filename.startswith(_MACOS_EXTRAS)
        }

    def _member(self, name: str) -> ZipInfo:
        member = self._members.get(name)
        if member is None:
            raise ArrayMissing(
                f"{self.uri}: there is no array {name!r}.{suggestion(name, self.names())}"
            )
        if encrypted(member):
            raise BadData(
                f"{self._where(name)} is encrypted.", hint="Write the file without a password."
            )
        return member

    def _where(self, name: str) -> str:
        return self.uri if self.container == "npy" else f"{self.uri}: the array {name!r}"

    def _is_marker(self, name: str) -> bool:
        return name.endswith(_MARKER) and name.removesuffix(_MARKER) in self._members

    def _marker(self, name: str) -> str | None:
        """Returns the string in the member `<name>.dtype`, or None."""
        if name + _MARKER not in self._members:
            return self._given_marker
        return self.single_text(name + _MARKER)

    def single_text(self, name: str) -> str:
        """Returns the one short string that a member holds."""
        member, where = self._member(name), self._where(name)
        head = self._head(name, member)
        header = parse_header(head, where)
        text = head[header.length : member.file_size]
        if header.dtype.kind not in "US" or len(text) != header.size_bytes or header.size_bytes < 1:
            raise BadData(f"{where} must be a string such as 'bfloat16'.")
        encoding = "ascii" if header.dtype.kind == "S" else "utf-32-le"
        return text.decode(encoding, "replace").rstrip("\0")

    def _digest(self, member: ZipInfo, header: NpyHeader, dtype: DType) -> str:
        # From type, shape and the member's checksum over all its bytes. A .npy file has no
        # checksum: from its size and a sample of its bytes (see `_content_sample`).
        crc = 0 if self.container == "npy" else member.CRC
        known = [dtype, header.shape, member.file_size, crc]
        digest = hashlib.blake2b(repr(known).encode(), digest_size=16)
        if self.container == "npy":
            for piece in sampled([self._file.path], [member.file_size]):
                digest.update(piece)
        return digest.hexdigest()

    def _convert_line(self) -> str:
        path = Path(self.uri)
        target = path.with_name(f"{path.stem}-stored.npz")
        return f"ttf data convert {shlex.quote(self.uri)} {shlex.quote(str(target))}"

    # -- content

    def _offset(self, member: ZipInfo) -> int:
        return data_offset(self._file, member) if self.container == "npz" else 0

    def _head(self, name: str, member: ZipInfo) -> bytes:
        if member.compress_type == 0:
            offset = self._offset(member)
            return self._file.bytes_at(offset, min(HEAD_BYTES, member.file_size))
        return b"".join(self._content(name, member, limit=HEAD_BYTES))[:HEAD_BYTES]

    def _header(self, name: str, member: ZipInfo) -> NpyHeader:
        return parse_header(self._head(name, member), self._where(name))

    def _content(self, name: str, member: ZipInfo, limit: int | None = None) -> Iterator[bytes]:
        """Yields the decompressed bytes; checks the CRC if they are read to the end."""
        data_offset(self._file, member)
        if member.compress_type not in BOUNDED:
            raise BadData(
                f"{self._where(name)} is compressed by {stored_as(member)}, which Python can only unpack "
                "as a whole.",
                hint="Write it again with numpy.savez, which does not compress.",
            )
        try:
            with (
                open_named(self._file.path) as raw,
                zipfile.ZipFile(raw) as archive,
                archive.open(member.filename) as stream,
            ):
                while block := stream.read(_BLOCK_BYTES if limit is None else limit):
                    yield block
                    if limit is not None:
                        return
        except Exception as error:  # any decompressor on arbitrary bytes
            raise BadData(
                f"{self._where(name)} is damaged: {error}", hint="Write or copy the file again."
            ) from error

    def _check_crc(self, name: str, member: ZipInfo) -> None:
        if member.compress_type:
            for _ in self._content(name, member):
                pass
            return
        start, crc = data_offset(self._file, member), 0
        with open_named(self._file.path) as file:
            file.seek(start)
            left = member.file_size
            while left and (block := file.read(min(left, _BLOCK_BYTES))):
                crc = zlib.crc32(block, crc)
                left -= len(block)
        if left or crc != member.CRC:
            raise BadData(
                f"{self._where(name)} is damaged: its checksum is {crc:08x}, but it should be "
                f"{member.CRC:08x}."
            )

    def _row_blocks(
        self, name: str, member: ZipInfo, header: NpyHeader, block_bytes: int
    ) -> Iterator[NDArray[Any]]:
        # Whole rows, a few MB at a time. The CRC is checked last.
        row_bytes = max(1, header.row_bytes if header.shape else header.dtype.itemsize)
        wanted = max(1, block_bytes // row_bytes) * row_bytes
        pending, skip = bytearray(), header.length
        for piece in self._pieces(name, member):
            pending += piece[skip:] if skip < len(piece) else b""
            skip = max(0, skip - len(piece))
            while len(pending) >= wanted:
                yield self._rows(pending[:wanted], header)
                del pending[:wanted]
        if len(pending) % row_bytes:
            raise BadData(f"{self._where(name)} is truncated in the middle of a row.")
        if pending:
            yield self._rows(pending, header)

    def _pieces(self, name: str, member: ZipInfo) -> Iterator[bytes]:
        if self.container == "npz":
            yield from self._content(name, member)
            return
        for start in range(0, member.file_size, _BLOCK_BYTES):
            yield self._file.bytes_at(start, min(_BLOCK_BYTES, member.file_size - start))

    @staticmethod
    def _rows(raw: bytes | bytearray, header: NpyHeader) -> NDArray[Any]:
        return np.frombuffer(bytes(raw), header.dtype).reshape(-1, *header.shape[1:])

    def _fortran_blocks(
        self, name: str, member: ZipInfo, header: NpyHeader, block_bytes: int
    ) -> Iterator[NDArray[Any]]:
        if member.compress_type:
            raise BadData(
                f"{self._where(name)} is compressed and in Fortran order, so ttf cannot convert "
                "it row by row.",
                hint="Convert it in Python: numpy.savez(OUT, X=numpy.ascontiguousarray(X)).",
            )
        offset = self._offset(member)
        turned = self._file.view(offset + header.length, header.shape[::-1], header.dtype).T
        step = max(1, block_bytes // max(1, header.row_bytes))
        for start in range(0, header.shape[0], step):
            yield np.ascontiguousarray(turned[start : start + step])
        if self.container == "npz":
            self._check_crc(name, member)
