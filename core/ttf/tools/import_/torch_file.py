"""`.pt` files with a tensor, or tensors by name; nothing else in them is loaded."""

from __future__ import annotations

import contextlib
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ttf.contracts import DType
from ttf.data.vectors import numpy_dtype
from ttf.errors import BadData
from ttf.text.numbers import size
from ttf.tools.import_.columns import Column, Input, InputFile, fitting

ENDINGS: Final = (".pt", ".pth")
_MOST_UNMAPPED: Final = 256 << 20
_READ_AS: Final[dict[str, DType]] = {
    "torch.float64": "float32", "torch.float32": "float32", "torch.float16": "float16",
    "torch.bfloat16": "bfloat16", "torch.int64": "int64", "torch.int32": "int32",
    "torch.int16": "int32", "torch.int8": "int32", "torch.uint8": "uint8",
}  # fmt: skip


def open_torch(path: Path) -> Input:
    file = InputFile(path)
    try:
        loaded = _loaded(path, file)
        named = loaded if isinstance(loaded, dict) else {"vectors": loaded}
        columns = {
            str(name): column
            for name, value in named.items()
            if (column := _column(path, str(name), value)) is not None
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


def _loaded(path: Path, file: InputFile) -> Any:
    import torch

    zipped = file.bytes_at(0, 4) == b"PK\x03\x04"
    if not zipped and file.size > _MOST_UNMAPPED:
        raise BadData(
            f"{path} is in torch's format before version 1.6, or no file of torch, and it has "
            f"{size(file.size)}. Such a file cannot be mapped.",
            hint="Save it again: torch.save(torch.load(FILE, weights_only=True), OUT).",
        )
    try:
        with _without_bytearray():
            return torch.load(path, map_location="cpu", weights_only=True, mmap=zipped)
    except pickle.UnpicklingError as error:
        raise BadData(
            f"{path} holds more than tensors, or is no file of torch. ttf does not load other "
            "objects, because loading could execute code.",
            hint="Save the tensors alone: torch.save({'vectors': tensor}, FILE).",
        ) from error
    except (RuntimeError, EOFError, ValueError, KeyError, OSError) as error:
        why = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
        raise BadData(
            f"{path} is damaged, or no file of torch: {why}", hint="Copy it again."
        ) from error


@contextlib.contextmanager
def _without_bytearray() -> Iterator[None]:
    """torch takes bytearray(n) for harmless, with any n: a file of 800 bytes filled the memory."""
    from torch import _weights_only_unpickler as reader

    allowed: dict[str, Any] = reader._get_allowed_globals()
    taken = {name: allowed.pop(name) for name in ("builtins.bytearray",) if name in allowed}
    try:
        yield
    finally:
        allowed.update(taken)


def _column(path: Path, name: str, value: Any) -> Column | None:
    import torch

    if not isinstance(value, torch.Tensor) or value.layout != torch.strided or not value.dim():
        return None
    if value.device.type != "cpu":
        return None
    if value.numel() * value.element_size() > value.untyped_storage().nbytes():
        raise BadData(
            f"{path}: the tensor {name!r} of the shape {tuple(value.shape)} repeats its numbers: the "
            f"file has only {value.untyped_storage().nbytes():,} bytes of them.",
            hint="If that is meant: torch.save(tensor.contiguous(), FILE).",
        )
    tensor, dtype = value.detach(), _READ_AS.get(str(value.dtype))
    if dtype is None:
        return None
    held = numpy_dtype(dtype)

    def read(start: int, stop: int) -> NDArray[Any]:
        part = tensor[start:stop].resolve_neg().contiguous()
        if dtype == "bfloat16":
            return part.view(torch.int16).numpy().view(np.uint16)
        return fitting(part.numpy(), held, start, f"{path}: {name}")

    return Column(name, tuple(tensor.shape), dtype, read)
