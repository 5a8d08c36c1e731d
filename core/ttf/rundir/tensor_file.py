"""Tensors in safetensors files, hashed; a failed write is an OSError like any other.

The library makes the bytes and `durable` writes them: every write is an operation that can be counted
and made to fail, and the hash is of what was meant, not of what the disk made of it. The library
copies its tensors twice for that and holds the interpreter lock meanwhile, so what is written
beside the training is cut into parts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

import torch
from safetensors.torch import save
from torch import Tensor

from ttf.rundir.durable import write_new

PART_BYTES: Final = 16 << 20
"""Twice as much is what a part costs in memory while it is written; 7 ms of the interpreter."""
_PIECE: Final = "#"


def save_tensors(tensors: Mapping[str, Tensor], path: Path, area: str | None = None) -> str:
    """Writes a file (inside `folder_written_whole`) and returns its SHA-256. Raises OSError."""
    held = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    return write_new(path, save(held), area or path.stem)


def parts_of(
    tensors: Mapping[str, Tensor], part_bytes: int = PART_BYTES
) -> Iterator[dict[str, Tensor]]:
    """The same tensors in order, cut so that no part is larger; at least one part, maybe empty."""
    part: dict[str, Tensor] = {}
    size = 0
    for name, piece in _pieces(tensors, part_bytes):
        if part and size + piece.nbytes > part_bytes:
            yield part
            part, size = {}, 0
        part[name] = piece
        size += piece.nbytes
    yield part


def _pieces(tensors: Mapping[str, Tensor], part_bytes: int) -> Iterator[tuple[str, Tensor]]:
    """Tensors that are larger than a part by rows, named '<name>#<first row>'."""
    for name, tensor in tensors.items():
        if tensor.nbytes <= part_bytes or tensor.ndim == 0:
            yield name, tensor
            continue
        rows = max(1, part_bytes * len(tensor) // tensor.nbytes)
        for start in range(0, len(tensor), rows):
            yield f"{name}{_PIECE}{start}", tensor[start : start + rows]


def joined(parts: Iterable[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """The inverse of `parts_of`."""
    pieces: dict[str, dict[int, Tensor]] = {}
    for part in parts:
        for key, tensor in part.items():
            name, _, start = key.partition(_PIECE)
            pieces.setdefault(name, {})[int(start or 0)] = tensor
    return {
        name: next(iter(found.values()))
        if len(found) == 1
        else torch.cat([found[start] for start in sorted(found)])
        for name, found in pieces.items()
    }
