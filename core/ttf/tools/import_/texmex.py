"""fvecs, bvecs and ivecs: before each row its length as int32, then float32, bytes or int32."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ttf.contracts import DType
from ttf.errors import BadData
from ttf.tools.import_.columns import Column, Input, InputFile

ENDINGS: Final = (".fvecs", ".bvecs", ".ivecs")
_HELD: Final[dict[str, tuple[str, DType]]] = {
    ".fvecs": ("<f4", "float32"),
    ".bvecs": ("u1", "float16"),  # every byte is exact in float16
    ".ivecs": ("<i4", "int32"),
}
_WIDEST: Final = 1 << 20


def open_texmex(path: Path) -> Input:
    file, ending = InputFile(path), path.suffix.lower()
    try:
        held, dtype = _HELD[ending]
        dim = int.from_bytes(file.bytes_at(0, 4), "little", signed=True)
        record = 4 + dim * np.dtype(held).itemsize
        if not file.size or not 0 < dim <= _WIDEST:
            what = "is empty" if not file.size else f"begins with the row length {dim}"
            raise BadData(
                f"{path} {what}, so it is no {ending[1:]} file.", hint="Copy the file again."
            )
        if file.size % record:
            raise BadData(
                f"{path} is truncated: rows of {dim} numbers take {record:,} bytes each, but after "
                f"{file.size // record:,} rows {file.size % record:,} bytes are left.",
                hint="Copy the file again.",
            )
    except BaseException:
        file.close()
        raise
    fields = np.dtype([("length", "<i4"), ("row", held, (dim,))])

    def read(start: int, stop: int) -> NDArray[Any]:
        raw = file.bytes_at(start * record, (stop - start) * record)
        if len(raw) != (stop - start) * record:
            raise BadData(f"{path} is truncated.", hint="Copy the file again.")
        rows = np.frombuffer(raw, fields)
        wrong = np.flatnonzero(rows["length"] != dim)
        if len(wrong):
            raise BadData(
                f"{path}: row {start + int(wrong[0])} has the length "
                f"{int(rows['length'][wrong[0]])}, but row 0 has {dim}.",
                hint="All rows must have one length. If the file is damaged, copy it again.",
            )
        found: NDArray[Any] = np.ascontiguousarray(rows["row"]).astype(dtype, copy=False)
        return found

    column = Column("vectors", (file.size // record, dim), dtype, read)
    notes: tuple[str, ...] = ()
    if ending == ".bvecs":
        notes = ("The bytes become float16 numbers, which hold them exactly.",)
    return Input(
        uri=str(path),
        what=f"a file in the format {ending[1:]}",
        columns={"vectors": column},
        identity=file.identity(),
        check_unchanged=file.check_unchanged,
        close=file.close,
        notes=notes,
    )
