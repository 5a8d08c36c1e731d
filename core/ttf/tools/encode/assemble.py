"""Writes bank, context and pairs from the blocks of vectors, with bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from ttf.contracts import DType, StoreWriter
from ttf.data.text_arrays import put_text
from ttf.data.text_rows import TEXT_ENDS, TEXTS
from ttf.data.writing import BLOCK_BYTES, writing
from ttf.errors import BadData
from ttf.text.numbers import size
from ttf.tools.encode.collect import Read
from ttf.tools.encode.collection import Collected
from ttf.tools.encode.links import Grouped
from ttf.tools.encode.split import SplitPairs
from ttf.tools.encode.text_files import Texts
from ttf.tools.encode.work import CUT, VECTORS

VECTOR_TYPES: Final[dict[str, DType]] = {"<f4": "float32", "<f2": "float16"}
# An array in memory; what is larger is refused with its reason.
_LARGEST: Final = 8 << 30


def write_vectors(path: Path, kind: Collected, folder: Path, dtype: str) -> None:
    """`vectors`, the texts, and `ids` if every text has one."""
    vectors = np.load(folder / VECTORS, mmap_mode="r")
    texts = kind.texts
    with writing(str(path), needed_bytes=vectors.nbytes + texts.size_bytes) as writer:
        _append_all(writer, "vectors", vectors, VECTOR_TYPES[dtype], np.arange(kind.count))
        ids = None if kind.ids is None else id_array(kind.ids)
        if ids is not None and ids.dtype.kind == "i":
            writer.array("ids", ids.shape, "int64").append(ids)
        elif ids is not None:
            put_text(writer, "ids", ids)
        ends = writer.array(TEXT_ENDS, (texts.count,), "int64")
        ends.append(np.asarray(texts.ends, dtype=np.int64))
        array = writer.array(TEXTS, (texts.size_bytes,), "uint8")
        with texts.path.open("rb") as file:
            while data := file.read(BLOCK_BYTES):
                array.append(np.frombuffer(data, np.uint8))


def id_array(ids: Texts) -> NDArray[Any]:
    """Whole numbers if every id is one, as it would be printed; else strings."""
    names = [name for block in _blocks(ids) for name in block]
    if all(name.lstrip("-").isdigit() and len(name) < 19 for name in names):
        numbers = np.array(names, dtype=np.int64)
        if all(str(number) == name for number, name in zip(numbers.tolist(), names, strict=True)):
            return numbers
    return np.array(names, dtype=np.str_)


def _blocks(texts: Texts) -> Iterator[list[str]]:
    first = 0
    while first < texts.count:
        stop = texts.block_end(first, 1 << 16, BLOCK_BYTES)
        yield texts.read(first, stop)
        first = stop


def write_pairs(path: Path, found: Read, split: SplitPairs, folder: Path, dtype: str) -> None:
    """X_* or seq_*, pos_*, and what else the inputs say of the pairs."""
    kind = found.queries
    needed = 0 if kind is None else (folder / kind.name / VECTORS).stat().st_size
    sequences = None
    if found.sequences is not None and found.passages is not None:
        sequences = found.sequences.load(found.passages.rows)
        needed = sum(len(part) for part in split.parts.values()) * sequences.longest * 4
        _require_size(needed, f"sequences of up to {sequences.longest:,} passages")
    ids = None if kind is None or kind.ids is None else id_array(kind.ids)
    graded = any((part.grades[part.positives >= 0] != 1).any() for part in split.parts.values())
    with writing(str(path), needed_bytes=needed) as writer:
        for name, part in split.parts.items():
            if kind is not None:
                vectors = np.load(folder / kind.name / VECTORS, mmap_mode="r")
                rows = part.queries
                _append_all(writer, f"X_{name}", vectors, VECTOR_TYPES[dtype], rows)
            elif sequences is not None:
                steps = sequences.padded(part.queries)
                _put(writer, f"seq_{name}", steps, "int32")
            _write_judgements(writer, name, part, graded=graded)
            if ids is not None:
                _write_ids(writer, f"ids_{name}", ids[part.queries])


def _write_judgements(writer: StoreWriter, name: str, part: Grouped, *, graded: bool) -> None:
    _put(writer, f"pos_{name}", part.positives, "int64")
    if graded:
        _put(writer, f"rel_{name}", part.grades, "float32")
    if name != "train":
        return
    for array, values, kind in (
        ("neg_train", part.negatives, "int64"),
        ("score_pos_train", part.scores, "float32"),
        ("score_neg_train", part.negative_scores, "float32"),
    ):
        if values is not None:
            _put(writer, array, values, "int64" if kind == "int64" else "float32")


def _write_ids(writer: StoreWriter, name: str, ids: NDArray[Any]) -> None:
    if ids.dtype.kind == "i":
        _put(writer, name, ids, "int64")
    else:
        put_text(writer, name, ids)


def _put(
    writer: StoreWriter,
    name: str,
    values: NDArray[Any],
    dtype: Literal["int32", "int64", "float32"],
) -> None:
    _require_size(values.nbytes, f"the array {name} {values.shape}")
    writer.array(name, values.shape, dtype).append(values)


def _require_size(num_bytes: int, what: str) -> None:
    if num_bytes > _LARGEST:
        raise BadData(
            f"{what} would need {size(num_bytes)}, because every query has as many places as the "
            "longest one.",
            hint="Leave out the few rows that are so much longer than the others, or split them.",
        )


def _append_all(
    writer: StoreWriter, name: str, source: NDArray[Any], dtype: DType, rows: NDArray[np.int64]
) -> None:
    array = writer.array(name, (len(rows), source.shape[1]), dtype)
    step = max(1, BLOCK_BYTES // max(1, source.shape[1] * source.itemsize))
    for at in range(0, len(rows), step):
        array.append(np.ascontiguousarray(source[rows[at : at + step]]))


def num_cut(folder: Path) -> int:
    """How many texts of a kind the encoder did not read to the end."""
    return int(np.count_nonzero(np.load(folder / CUT, mmap_mode="r")))
