"""Strings in zarr, such as the `ids` of a bank: read whole, with limits."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ttf import BadData
from ttf_storage._npy_header import decoded
from ttf_storage._zarr_meta import ArrayMeta

_MOST_BYTES: Final = 512 << 20
_CHARACTER_BYTES: Final = np.dtype("U1").itemsize


def read_text(array: Any, meta: ArrayMeta, where: str) -> NDArray[np.str_]:
    """Reads chunk by chunk: one small file can become many long strings."""
    if not meta.is_text or len(meta.shape) != 1:
        shape = tuple(meta.shape)
        raise BadData(f"{where} is {meta.dtype} {shape}, but it must be strings.")
    rows, step = meta.shape[0], meta.chunks[0]
    longest = max(1, np.dtype(meta.dtype).itemsize // _CHARACTER_BYTES)
    _require_small(rows, longest, where)
    parts: list[NDArray[np.str_]] = []
    for start in range(0, rows, step):
        found = np.asarray(array[start : min(start + step, rows)])
        strings = _decoded(found, where)
        longest = max(longest, strings.dtype.itemsize // _CHARACTER_BYTES)
        _require_small(rows, longest, where)
        parts.append(strings)
    return np.concatenate(parts) if parts else np.empty(0, np.str_)


def _decoded(found: NDArray[Any], where: str) -> NDArray[np.str_]:
    if found.dtype.kind in "US":
        return decoded(found.tobytes(), found.dtype, where)
    strings = [str(value) for value in found.tolist()]
    wide = max(map(len, strings), default=0)
    _require_small(len(strings), wide, where)
    array = np.array(strings, f"U{max(1, wide)}")
    return decoded(array.tobytes(), array.dtype, where)


def _require_small(rows: int, longest: int, where: str) -> None:
    if rows * longest * _CHARACTER_BYTES > _MOST_BYTES:
        raise BadData(
            f"{where}: {rows:,} strings of up to {longest:,} characters need more than the "
            f"{_MOST_BYTES >> 20} MB that ttf reads.",
            hint="Use shorter ids, or whole numbers.",
        )
