"""Arrays, tensors and frames of a Python caller, written to files for the processes of a run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ttf.contracts import DType
from ttf.data.convert import check_range
from ttf.data.text_arrays import put_text
from ttf.data.vectors import numpy_dtype
from ttf.data.writing import array_bytes, block_rows, writing
from ttf.errors import BadData, ConfigError

_HELD: Final[Mapping[str, DType]] = {"f": "float32", "i": "int64", "u": "int64", "b": "uint8"}


def write_given(given: Mapping[str, Any], folder: Path) -> dict[str, str]:
    """Writes `pairs`, `bank` and `context` as .npz files; returns their paths by the same names."""
    folder.mkdir(parents=True, exist_ok=True)
    return {role: _written(role, value, folder / f"{role}.npz") for role, value in given.items()}


def _written(role: str, value: Any, path: Path) -> str:
    if role == "pairs" and not isinstance(value, Mapping):
        raise ConfigError(
            f"pairs= takes a path or several arrays, not one value of type {type(value).__name__}.",
            hint='Name the arrays: pairs={"X_train": queries, "pos_train": rows_of_the_bank}.',
        )
    named = value if isinstance(value, Mapping) else {"vectors": value}
    arrays = {str(name): as_numpy(array, f"{role}: {name}") for name, array in named.items()}
    needed = sum(array_bytes(a.shape, _dtype(a)) for a in arrays.values() if a.dtype.kind != "U")
    with writing(str(path), needed_bytes=needed) as writer:
        for name, array in arrays.items():
            if array.dtype.kind == "U":
                put_text(writer, name, array)
                continue
            dtype = _dtype(array)
            out, step = writer.array(name, array.shape, dtype), block_rows(array.shape)
            for start in range(0, len(array), step):
                held = array[start : start + step]
                with np.errstate(over="ignore"):
                    block = np.ascontiguousarray(held, dtype=numpy_dtype(dtype))
                check_range(held, block, start, dtype, f"{role}: {name}")
                out.append(block)
    return str(path.absolute())


def as_numpy(value: Any, where: str) -> NDArray[Any]:
    """An array, a frame, or a tensor of any device, as numbers or strings. Raises BadData."""
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        if str(value.dtype) == "torch.bfloat16":  # numpy has no such type
            value = value.float()
    array = np.asarray(value)
    if array.dtype.kind == "S":
        array = np.char.decode(array, "utf-8")
    if array.dtype.kind == "O" and all(isinstance(item, str) for item in array.flat):
        array = array.astype(str)
    if array.dtype.kind not in "fiubU" or not array.ndim:
        raise BadData(
            f"{where} has the type {array.dtype} and the shape {array.shape}. It must be rows of "
            "numbers, or strings for ids.",
        )
    return array


def _dtype(array: NDArray[Any]) -> DType:
    return "float16" if array.dtype == np.float16 else _HELD[array.dtype.kind]
