"""`.pt` files with a tensor, or tensors by name; nothing in them is executed, and nothing is loaded."""

from __future__ import annotations

import io
import math
import struct
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from ttf.contracts import DType
from ttf.data.vectors import numpy_dtype
from ttf.errors import BadData
from ttf.tools.import_.columns import Column, Input, InputFile, fitting
from ttf.tools.import_.torch_pickle import NotOnlyTensors, StorageAt, TensorAt, TorchPickle

ENDINGS: Final = (".pt", ".pth")
_MOST_PICKLE: Final = 64 << 20
_LOCAL: Final = struct.Struct(
    "<4s22xHH"
)  # The header of a member: of its name and what follows it.
_MAGIC: Final = 0x1950A86A20F9469CFC6C  # of files before version 1.6
_COUNT: Final = struct.Struct("<q")
# By torch's storage: as it lies in the file, and as it is read.
_READ_AS: Final[Mapping[str, tuple[str, DType]]] = {
    "DoubleStorage": ("<f8", "float32"), "FloatStorage": ("<f4", "float32"),
    "HalfStorage": ("<f2", "float16"), "BFloat16Storage": ("<u2", "bfloat16"),
    "LongStorage": ("<i8", "int64"), "IntStorage": ("<i4", "int32"), "ShortStorage": ("<i2", "int32"),
    "CharStorage": ("i1", "int32"), "ByteStorage": ("u1", "uint8"),
}  # fmt: skip
_SIGN: Final = np.uint16(0x8000)  # of bfloat16
_OTHER_BYTES: Final = {
    "BoolStorage": 1,
    "UntypedStorage": 1,
    "ComplexFloatStorage": 8,
    "ComplexDoubleStorage": 16,
}


@dataclass(frozen=True)
class _Found:
    """`places`: where the bytes of each storage begin, and how many there are."""

    value: Any
    places: Callable[[StorageAt], tuple[int, int]]


def open_torch(path: Path) -> Input:
    file = InputFile(path)
    try:
        found = _read(path, file)
        whole = np.memmap(file.file, np.uint8, "r")
        named = found.value if isinstance(found.value, dict) else {"vectors": found.value}
        columns = {
            name: column
            for name, value in named.items()
            if (column := _column(path, name, value, found, whole)) is not None
        }
    except BaseException:
        file.close()
        raise
    return Input(
        uri=str(path),
        what="a file of torch",
        columns=columns,
        identity=file.identity(),
        check_unchanged=file.check_unchanged,
        close=file.close,
    )


def _read(path: Path, file: InputFile) -> _Found:
    try:
        return _of_zip(file) if file.bytes_at(0, 4) == b"PK\x03\x04" else _of_stream(file)
    except NotOnlyTensors as error:
        raise BadData(
            f"{path} holds more than tensors, or is no file of torch ({error}). ttf does not load other "
            "objects, because loading could execute code.",
            hint="Save the tensors alone: torch.save({'vectors': tensor}, FILE).",
        ) from error
    except (ValueError, LookupError, TypeError, struct.error, zipfile.BadZipFile, OSError) as error:
        why = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
        raise BadData(
            f"{path} is damaged, or no file of torch: {why}", hint="Copy it again."
        ) from error


# --- a zip file: data.pkl, and a member for each storage ---------------------------------------------


def _of_zip(file: InputFile) -> _Found:
    with zipfile.ZipFile(file.file) as archive:
        members = {one.filename.partition("/")[2]: one for one in archive.infolist()}

    def place(name: str) -> tuple[int, int]:
        member = members[name]
        if member.compress_type or member.flag_bits & 1:
            raise ValueError(f"{name} is packed, which torch never does")
        mark, *lengths = _LOCAL.unpack(file.bytes_at(member.header_offset, _LOCAL.size))
        begin = member.header_offset + _LOCAL.size + sum(lengths)
        if mark != b"PK\x03\x04" or begin + member.file_size > file.size:
            raise ValueError(f"{name} is cut")
        return begin, member.file_size

    begin, length = place("data.pkl")
    if length > _MOST_PICKLE:
        raise NotOnlyTensors(f"{length:,} bytes besides the tensors")
    if "byteorder" in members and file.bytes_at(*place("byteorder")) != b"little":
        raise ValueError("its numbers have the byte order of another machine")
    value = TorchPickle().read(io.BytesIO(file.bytes_at(begin, length)))
    return _Found(value, lambda storage: place(f"data/{storage.key}"))


# --- the format before version 1.6: five pickles, then the storages ----------------------------------


def _of_stream(file: InputFile) -> _Found:
    file.file.seek(0)
    if TorchPickle().read(file.file) != _MAGIC:
        raise NotOnlyTensors("it does not begin as one")
    TorchPickle().read(file.file)  # the version
    system = TorchPickle().read(file.file)
    if not isinstance(system, dict) or system.get("little_endian") is not True:
        raise ValueError("its numbers have the byte order of another machine")
    pickle = TorchPickle()
    value = pickle.read(file.file)
    places: dict[str, tuple[int, int]] = {}
    keys = TorchPickle().read(file.file)
    at = file.file.tell()
    for key in keys:
        if not isinstance(key, str):
            raise TypeError("a storage without a name")
        storage = pickle.storages[key]
        (count,) = _COUNT.unpack(file.bytes_at(at, _COUNT.size))
        length = count * _item_bytes(storage)
        if count != storage.numbers or at + _COUNT.size + length > file.size:
            raise ValueError("it is cut")
        places[storage.key] = at + _COUNT.size, length
        at += _COUNT.size + length
    return _Found(value, lambda storage: places[storage.key])


def _item_bytes(storage: StorageAt) -> int:
    if storage.kind in _READ_AS:
        return int(np.dtype(_READ_AS[storage.kind][0]).itemsize)
    if storage.kind not in _OTHER_BYTES:
        raise NotOnlyTensors(storage.kind)
    return _OTHER_BYTES[storage.kind]


# --- tensors -----------------------------------------------------------------------------------------


def _column(
    path: Path, name: str, value: Any, found: _Found, whole: NDArray[np.uint8]
) -> Column | None:
    if not isinstance(value, TensorAt) or not value.shape or value.storage.kind not in _READ_AS:
        return None
    stored, dtype = _READ_AS[value.storage.kind]
    try:
        numbers = _numbers(value, np.dtype(stored), found, whole)
    except (ValueError, LookupError, struct.error) as error:
        raise BadData(
            f"{path} is damaged: the tensor {name!r} is not whole ({error}).", hint="Copy it again."
        ) from error
    if math.prod(value.shape) > numbers.size:
        raise BadData(
            f"{path}: the tensor {name!r} of the shape {value.shape} repeats its numbers: the file has "
            f"only {numbers.nbytes:,} bytes of them.",
            hint="If that is meant: torch.save(tensor.contiguous(), FILE).",
        )
    strides = tuple(step * numbers.itemsize for step in value.stride)
    tensor = as_strided(numbers[value.offset :], value.shape, strides, writeable=False)
    held = numpy_dtype(dtype)

    def read(start: int, stop: int) -> NDArray[Any]:
        part = np.ascontiguousarray(tensor[start:stop])
        if value.negative:
            part = part ^ _SIGN if dtype == "bfloat16" else -part
        return part if dtype == "bfloat16" else fitting(part, held, start, f"{path}: {name}")

    return Column(name, value.shape, dtype, read)


def _numbers(
    tensor: TensorAt, stored: np.dtype[Any], found: _Found, whole: NDArray[np.uint8]
) -> NDArray[np.generic]:
    """The storage of a tensor. Raises ValueError for a tensor that leads out of it."""
    begin, length = found.places(tensor.storage)
    count = min(tensor.storage.numbers, length // stored.itemsize)
    if len(tensor.shape) != len(tensor.stride):
        raise ValueError("it has not one step for each axis")
    steps = zip(tensor.shape, tensor.stride, strict=True)
    last = tensor.offset + sum((size - 1) * step for size, step in steps)
    if 0 not in tensor.shape and last >= count:
        raise ValueError("it is larger than its storage")
    return whole[begin : begin + count * stored.itemsize].view(stored)
