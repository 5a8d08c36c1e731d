"""How many steps of each sequence are valid: from len_*, or from the mask of its steps, mask_*."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ttf.contracts import VectorSource
from ttf.data.named_arrays import NamedArrays
from ttf.data.vectors import FLOATS
from ttf.data.writing import block_rows
from ttf.errors import BadData


def lengths_of(pairs: NamedArrays, split: str, source: VectorSource) -> NDArray[np.int64] | None:
    """None: the file says nothing about lengths. `source`: X_* or seq_* of the split."""
    if f"len_{split}" in pairs:
        return _from_numbers(pairs, f"len_{split}", source)
    if f"mask_{split}" in pairs and _is_sequence(source):
        return _from_mask(pairs, f"mask_{split}", source)
    return None


def _is_sequence(source: VectorSource) -> bool:
    return source.dtype not in FLOATS or len(source.shape) == 3


def _from_numbers(pairs: NamedArrays, name: str, source: VectorSource) -> NDArray[np.int64]:
    array = pairs[name]
    if array.dtype not in ("int32", "int64") or array.shape != source.shape[:1]:
        raise BadData(
            f"{name} in {pairs.uri} has the type {pairs.stored_type(name)} and the shape "
            f"{array.shape}. It must be int32 or int64 with the shape ({source.shape[0]},), because {source.name} "
            f"has {source.shape[0]} rows."
        )
    lengths = np.array(array.read(0, array.shape[0]), dtype=np.int64)
    longest = source.shape[1] if _is_sequence(source) else 1
    wrong = np.flatnonzero((lengths < 1) | (lengths > longest))
    if wrong.size:
        raise BadData(
            f"{array.name}[{wrong[0]}] in {pairs.uri} is {lengths[wrong[0]]}, but the length of a "
            f"sequence in {source.name} must be between 1 and {longest} ({wrong.size:,} wrong "
            "values in total)."
        )
    return lengths


def _from_mask(pairs: NamedArrays, name: str, source: VectorSource) -> NDArray[np.int64]:
    mask = pairs[name]
    ignore = f"To ignore the mask: --set data.names.{name}=none"
    if mask.dtype in FLOATS or mask.shape != source.shape[:2]:
        raise BadData(
            f"{name} in {pairs.uri} has the type {pairs.stored_type(name)} and the shape "
            f"{mask.shape}. A mask must be boolean with the shape {source.shape[:2]}, True for each valid step of "
            f"{source.name}.",
            hint=ignore,
        )
    rows, longest = mask.shape
    lengths = np.empty(rows, dtype=np.int64)
    step = block_rows(mask.shape)
    for start in range(0, rows, step):
        block = np.asarray(mask.read(start, min(start + step, rows)))
        counts = (block != 0).sum(axis=1)
        prefix = np.arange(longest) < counts[:, None]
        wrong = np.flatnonzero((block != prefix).any(axis=1) | (counts == 0))
        if wrong.size:
            raise BadData(
                f"{mask.name}[{start + wrong[0]}] in {pairs.uri} is not True for the first steps "
                "and False for the rest. ttf reads sequences whose padding is at the end, and "
                "which have at least one valid step.",
                hint=(
                    "If True marks the padding (key_padding_mask of PyTorch), save ~mask. If the "
                    f"padding is at the front, move it to the end. {ignore}"
                ),
            )
        lengths[start : start + len(block)] = counts
    return lengths
