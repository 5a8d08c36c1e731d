"""Smaller vectors: fewer dimensions (principal directions) and whole numbers of 8 bits.

A score stays an inner product: d' = round(P'd / s), q' = s * P'q. So the query's part is one matrix,
written to query.npy; the 1 of a calibrated query is a dimension like the others, which P keeps.

Shapes: N documents, D width with the calibration, R reduced width.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ttf.contracts import Progress, VectorSource
from ttf.data.sources import VectorRef
from ttf.data.writing import array_bytes, make_room
from ttf.errors import ConfigError
from ttf.host.plugins import written_store
from ttf.mining.scan.float32_rows import float32_blocks

_BLOCK: Final = 4096
_LARGEST: Final = 127.0


def matrix_of(
    source: VectorSource, dims: int | None, *, calibrated: bool, int8: bool, progress: Progress
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """(D, R) for documents before rounding, and (D, R) for queries."""
    width = source.shape[1] - calibrated
    kept = width if dims is None else dims
    if not 1 <= kept <= width:
        raise ConfigError(f"--dims {kept}: the documents have {width} dimensions.")
    directions_DR = np.zeros((source.shape[1], kept + calibrated), np.float64)
    directions_DR[:width, :kept] = (
        np.eye(width) if kept == width else _principal(source, width, kept, progress)
    )
    if calibrated:
        directions_DR[-1, -1] = 1.0
    scale_R = _scales(source, directions_DR, progress) if int8 else np.ones(kept + calibrated)
    documents = (directions_DR / scale_R).astype(np.float32)
    return documents, (directions_DR * scale_R).astype(np.float32)


def write_smaller(
    source: VectorSource,
    matrix_DR: NDArray[np.float32],
    path: Path,
    *,
    int8: bool,
    progress: Progress,
) -> VectorRef:
    """The documents as they are exported, as float32 (int8: whole numbers)."""
    shape = (source.shape[0], matrix_DR.shape[1])
    make_room(path.parent, array_bytes(shape, "float32"))
    with written_store(str(path)) as writer:
        array = writer.array("vectors", shape, "float32")
        for start, block in float32_blocks(source, _BLOCK):
            small = block @ matrix_DR
            if int8:
                small = np.clip(np.rint(small), -_LARGEST, _LARGEST) + 0.0  # no -0.0
            array.append(np.ascontiguousarray(small, np.float32))
            progress(start + len(block), shape[0])
    return VectorRef(uri=str(path.resolve()), array="vectors", storage="npz")


def _principal(
    source: VectorSource, width: int, kept: int, progress: Progress
) -> NDArray[np.float64]:
    """The directions in which the documents are longest: of the second moments, not centred,
    because inner products are not either."""
    moments_DD = np.zeros((width, width), np.float64)
    for start, block in float32_blocks(source, _BLOCK):
        part = block[:, :width].astype(np.float64)
        moments_DD += part.T @ part
        progress(start + len(block), source.shape[0])
    vectors = np.linalg.eigh(moments_DD)[1][:, ::-1][:, :kept]
    signs = np.sign(vectors[np.abs(vectors).argmax(axis=0), np.arange(kept)])
    return np.asarray(vectors * signs, dtype=np.float64)


def _scales(
    source: VectorSource, directions_DR: NDArray[np.float64], progress: Progress
) -> NDArray[np.float64]:
    """One step of 8 bits in each dimension."""
    largest = np.zeros(directions_DR.shape[1])
    narrow = directions_DR.astype(np.float32)
    for start, block in float32_blocks(source, _BLOCK):
        np.maximum(largest, np.abs(block @ narrow).max(axis=0), out=largest)
        progress(start + len(block), source.shape[0])
    return np.where(largest > 0, largest, 1.0) / _LARGEST
