"""safetensors: eight bytes of length, a header in JSON, then the tensors one after another."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ttf import ArrayMissing, BadData, ConfigError, DType, numpy_dtype, suggestion
from ttf_storage._atomic_file import AtomicFile, RowsWriter
from ttf_storage._cast_rows import CastRows
from ttf_storage._content_sample import sampled
from ttf_storage._mapped import MappedFile, MappedRows, check_identity
from ttf_storage._npy_header import NpyHeader, beyond
from ttf_storage._stored_rows import READ_AS, StoredRows, described

_LENGTH: Final = 8
_MOST_HEADER: Final = 100_000_000  # as the library has it
_ROOM: Final = 64 << 10  # for the header, which is written last
_NUMPY: Final = {
    "F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "I64": "int64",
    "I32": "int32", "I16": "int16", "I8": "int8", "U64": "uint64", "U32": "uint32",
    "U16": "uint16", "U8": "uint8", "BOOL": "bool",
}  # fmt: skip
# The format has bfloat16, so uint16 is what it says; in files of numpy it may stand for bfloat16.
_READ_AS: Final[dict[str, DType]] = {**READ_AS, "bfloat16": "bfloat16", "uint16": "int32"}
_WRITTEN: Final = {name: code for code, name in _NUMPY.items()}


@dataclass(frozen=True)
class _Tensor:
    code: str
    shape: tuple[int, ...]
    start: int
    stop: int


class SafetensorsStore:
    """One map of the file for all its tensors."""

    container = "safetensors"

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self._file = MappedFile(Path(uri))
        try:
            self._tensors = self._read_header()
        except BaseException:
            self._file.close()
            raise

    def names(self) -> list[str]:
        return list(self._tensors)

    def source(self, name: str) -> StoredRows:
        tensor, where = self._tensor(name), f"{self.uri}: the array {name!r}"
        held = _NUMPY.get(tensor.code, "")
        dtype = _READ_AS.get(held)
        if dtype is None:
            raise BadData(
                f"{where} has the type {tensor.code}, but it must be F64, F32, F16, BF16, I8 to "
                "I64, U8, U32 or BOOL."
            )
        if not tensor.shape:
            raise BadData(f"{where} is a single number, but it must have rows.")

        def digest() -> str:
            known = name, tensor.code, tensor.shape
            found = hashlib.blake2b(repr(known).encode(), digest_size=16)
            for piece in sampled([self._file.path], [self._file.size]):
                found.update(piece)
            return found.hexdigest()

        if held == dtype:
            return MappedRows(self._file, name, tensor.start, tensor.shape, dtype, digest)
        header = NpyHeader(tensor.shape, np.dtype(held).newbyteorder("<"), False, 0)
        return CastRows(self._file, name, tensor.start, header, dtype, digest)

    def describe(self, name: str) -> Mapping[str, Any]:
        tensor = self._tensor(name)
        dtype = _NUMPY.get(tensor.code, tensor.code)
        return described(
            lambda: {"shape": list(tensor.shape), "dtype": dtype},
            lambda: self.source(name),
            stored="stored",
            size=tensor.stop - tensor.start,
        )

    def check_unchanged(self) -> None:
        check_identity(self._file.path, self._file.identity)

    def verify(self) -> Iterator[str]:
        """The format has no checksums; that the tensors fill the file was checked when it was
        opened."""
        return iter(())

    def close(self) -> None:
        self._file.close()

    def _tensor(self, name: str) -> _Tensor:
        if name not in self._tensors:
            raise ArrayMissing(
                f"{self.uri}: there is no array {name!r}.{suggestion(name, self._tensors)}"
            )
        return self._tensors[name]

    def _read_header(self) -> dict[str, _Tensor]:
        size = self._file.size
        length = int.from_bytes(self._file.bytes_at(0, _LENGTH), "little")
        if size < _LENGTH or length > size - _LENGTH or length > _MOST_HEADER:
            raise self._damaged(f"its header should have {length:,} bytes, the file has {size:,}")
        try:
            header = json.loads(self._file.bytes_at(_LENGTH, length))
            first = _LENGTH + length
            found = {
                str(name): _tensor_of(about, first)
                for name, about in header.items()
                if name != "__metadata__"
            }
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise self._damaged(f"its header cannot be read ({str(error)[:100]})") from error
        end = first
        for name, tensor in sorted(found.items(), key=lambda item: (item[1].start, item[1].stop)):
            held = np.dtype(_NUMPY.get(tensor.code, "uint8").replace("bfloat16", "uint16"))
            known = tensor.code in _NUMPY
            wanted = math.prod(tensor.shape) * held.itemsize
            if tensor.start != end or (known and tensor.stop - tensor.start != wanted):
                raise self._damaged(f"the tensor {name!r} does not fit its place")
            end = tensor.stop
        if end != size:
            raise self._damaged(f"it should have {end:,} bytes, but it has {size:,}")
        return found

    def _damaged(self, why: str) -> BadData:
        return BadData(
            f"{self.uri} is damaged, truncated, or no safetensors file: {why}.",
            hint="Write or copy the file again.",
        )


def _tensor_of(about: Any, first: int) -> _Tensor:
    start, stop = about["data_offsets"]
    numbers = [*about["shape"], start, stop]
    if any(type(n) is not int or n < 0 for n in numbers) or stop < start:
        raise ValueError("a shape or an offset is no natural number")
    shape = tuple(about["shape"])
    if beyond(shape, 8):
        raise ValueError(f"the shape {str(shape)[:50]} is impossible")
    return _Tensor(str(about["dtype"]), shape, first + start, first + stop)


class _TensorWriter(RowsWriter):
    def __init__(self, file: AtomicFile, name: str, shape: tuple[int, ...], dtype: DType) -> None:
        super().__init__(name, shape, dtype)
        self._file = file

    def append(self, rows: NDArray[Any]) -> None:
        block = self.checked(rows)
        self._file.append(block.reshape(-1).view(np.uint8).data)
        self.rows_done += len(block)


class SafetensorsWriter:
    """The header has a fixed place and is padded with spaces, as the format allows."""

    def __init__(self, uri: str) -> None:
        self.target = Path(uri)
        self._file = AtomicFile(self.target)
        self._file.append(bytes(_LENGTH + _ROOM))
        self._header: dict[str, Any] = {}
        self._array: _TensorWriter | None = None

    def array(self, name: str, shape: tuple[int, ...], dtype: DType) -> _TensorWriter:
        self._finish_array()
        if name in self._header or name == "__metadata__":
            raise ValueError(f"the array {name!r} was already written, or cannot have this name")
        start = self._file.position - _LENGTH - _ROOM
        stop = start + math.prod(shape) * numpy_dtype(dtype).itemsize
        about = {"dtype": _WRITTEN[dtype], "shape": list(shape), "data_offsets": [start, stop]}
        self._header[name] = about
        if len(json.dumps(self._header)) > _ROOM:
            self.abort()
            raise ConfigError(f"{self.target}: there are too many arrays for this format.")
        self._array = _TensorWriter(self._file, name, shape, dtype)
        return self._array

    def commit(self) -> None:
        self._finish_array()
        if not self._header:
            raise ValueError(f"{self.target}: no array was written")
        text = json.dumps(self._header, separators=(",", ":")).encode()
        self._file.patch(_ROOM.to_bytes(_LENGTH, "little") + text.ljust(_ROOM), 0)
        self._file.publish()

    def abort(self) -> None:
        self._file.discard()

    def _finish_array(self) -> None:
        if self._array is not None:
            self._array.check_complete()
            self._array = None
