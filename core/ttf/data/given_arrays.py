"""Arrays, tensors and frames of a Python caller, written to files for the processes of a run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ttf.contracts import DType
from ttf.data.convert import check_range
from ttf.data.frames import columns_of, plain, stacked
from ttf.data.sources import GivenRows
from ttf.data.text_arrays import put_text
from ttf.data.vectors import numpy_dtype
from ttf.data.writing import array_bytes, block_rows, writing
from ttf.errors import BadData, ConfigError

_ROW_NUMBERS: Final = tuple(
    f"{kind}_{split}" for kind in ("pos", "neg", "seq") for split in ("train", "val")
)
_HELD: Final[Mapping[str, DType]] = {"f": "float32", "i": "int64", "u": "int64", "b": "uint8"}


def write_given(given: Mapping[str, Any], folder: Path) -> dict[str, str]:
    """Writes `pairs`, `bank` and `context` as .npz files; returns their paths by the same names."""
    folder.mkdir(parents=True, exist_ok=True)
    return {role: _written(role, value, folder / f"{role}.npz") for role, value in given.items()}


def _written(role: str, value: Any, path: Path) -> str:
    if not isinstance(value, Mapping):
        found = columns_of(value)
        value = value if found is None else found
    if role == "pairs" and not isinstance(value, Mapping):
        raise ConfigError(
            f"pairs= takes a path or several arrays, not one value of type {type(value).__name__}.",
            hint='Name the arrays: pairs={"X_train": queries, "pos_train": rows_of_the_bank}.',
        )
    named = value if isinstance(value, Mapping) else {"vectors": value}
    arrays = _arrays(named, role)
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
                check_range(held, block, start, dtype, _said(role, name))
                out.append(block)
    return str(path.absolute())


def _arrays(named: Mapping[Any, Any], role: str) -> dict[str, NDArray[Any]]:
    """By name; sequences of different lengths are padded, with their lengths as one more array."""
    named = {str(name): plain(value, _said(role, str(name))) for name, value in named.items()}
    # Both splits must have sequences of one length.
    longest = {kind: _longest(named, kind, rank) for kind, rank in (("X", 2), ("seq", 1))}
    found: dict[str, NDArray[Any]] = {}
    for key, value in named.items():
        name, where = str(key), _said(role, str(key))
        kind, _, split = name.partition("_")
        if (kind == "seq" and longest["seq"]) or (kind == "pos" and _is_ragged(value, 1)):
            found[name] = _padded_rows(value, where, longest.get(kind, 0))
        elif kind == "X" and longest["X"] and _is_sequences(value):
            _refuse_lengths(named, name, split, where)
            found[name], found[f"len_{split}"] = padded_sequences(value, where, longest["X"])
        else:
            found[name] = as_numpy(value, where)
        if (kind in ("X", "Y") or name == "vectors") and found[name].dtype.kind != "f":
            raise BadData(
                f"{where} has the type {found[name].dtype}, but vectors must be float32, float64 or "
                "float16.",
                hint='If these are vectors, convert them: array.astype("float32").',
            )
        if name in _ROW_NUMBERS and found[name].dtype.kind == "f":
            raise _no_row_numbers(name, found[name], where)
    return found


def _no_row_numbers(name: str, array: NDArray[Any], where: str) -> BadData:
    missing = int(np.isnan(array).sum())
    values = f", and {missing:,} of its values are missing (NaN)" if missing else ""
    return BadData(
        f"{where} has the type {array.dtype}{values}. It must hold row numbers (int64), and -1 where a "
        "row is unknown.",
        hint=f'Convert it: numpy.where(numpy.isnan({name}), -1, {name}).astype("int64"), '
        f'or of pandas: {name}.fillna(-1).astype("int64").',
    )


def _longest(named: Mapping[Any, Any], kind: str, rank: int) -> int:
    """The most steps of a sequence; 0 if none of these arrays needs padding."""
    own = [value for key, value in named.items() if str(key).startswith(f"{kind}_")]
    if not any(_is_ragged(value, rank) for value in own):
        return 0
    return max(
        (len(item) for value in own for item in value if hasattr(item, "__len__")), default=0
    )


def _refuse_lengths(named: Mapping[Any, Any], name: str, split: str, where: str) -> None:
    taken = [other for other in (f"len_{split}", f"mask_{split}") if other in named]
    if taken:
        raise BadData(
            f"{where} holds sequences of different lengths, or another X_* does. ttf counts their "
            f"steps itself, but {taken[0]} was given too.",
            hint=f"Leave {taken[0]} out, or give every X_* as one array (N, L, D).",
        )


def _said(role: str, name: str) -> str:
    if role == "pairs":
        return f"The array {name}"
    return f"{role}=" if name == "vectors" else f"The array {name} of {role}="


def _is_ragged(value: Any, rank: int) -> bool:
    """True for a list, a tuple or an object array of arrays with `rank` axes of which the first
    differs."""
    if isinstance(value, np.ndarray | list | tuple) or type(value).__module__.startswith("pandas"):
        if isinstance(value, np.ndarray) and value.dtype.kind != "O":
            return False
        lengths = set()
        for item in value:
            if isinstance(item, str) or not hasattr(item, "__len__") or _rank(item) != rank:
                return False
            lengths.add(len(item))
        return len(lengths) > 1
    return False


def _is_sequences(value: Any) -> bool:
    return len(value) > 0 and _rank(value[0]) == 2


def _rank(item: Any) -> int:
    if hasattr(item, "ndim"):
        return int(item.ndim)
    inner = next(iter(item), 0.0)
    return 1 + (_rank(inner) if hasattr(inner, "__len__") and not isinstance(inner, str) else 0)


def _padded_rows(value: Any, where: str, width: int = 0) -> NDArray[np.int64]:
    """Row numbers (N, P), padded with -1 up to `width` or the longest."""
    rows = [as_numpy(item, f"{where}, row {row},") for row, item in enumerate(value)]
    wrong = [row for row, item in enumerate(rows) if item.size and item.dtype.kind not in "iu"]
    if wrong:
        raise BadData(
            f"{where}: row {wrong[0]} has the type {rows[wrong[0]].dtype}, but it must hold row "
            "numbers."
        )
    out = np.full((len(rows), max(width, *map(len, rows))), -1, np.int64)
    for row, item in enumerate(rows):
        out[row, : len(item)] = item
    return out


def padded_sequences(
    value: Any, where: str, longest: int = 0
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Sequences (L_i, D) of different lengths as one array (N, L, D), and the lengths."""
    steps = [as_numpy(item, f"{where}, row {row},") for row, item in enumerate(value)]
    widths = {item.shape[1:] for item in steps}
    lengths = np.array([len(item) for item in steps], np.int64)
    if len(widths) > 1 or not lengths.all():
        empty = "" if lengths.all() else " One of them is empty."
        raise BadData(
            f"{where} must hold sequences of the shape (steps, dim) with one dim and at least one "
            f"step.{empty} The dims: {', '.join(sorted(str(w[0]) for w in widths))}."
        )
    out = np.zeros((len(steps), max(longest, int(lengths.max())), *widths.pop()), np.float32)
    for row, item in enumerate(steps):
        out[row, : len(item)] = item
    return out, lengths


def given_rows(value: Any, where: str) -> NDArray[Any]:
    """Row numbers as one array; lists of different lengths are padded with -1."""
    return _padded_rows(value, where) if _is_ragged(value, 1) else as_numpy(value, where)


def given_queries(value: Any, lengths: Any) -> GivenRows:
    """Queries to be encoded: an array or a tensor, or a list of sequences of different lengths."""
    if lengths is None and _is_ragged(value, 2):
        value, lengths = padded_sequences(value, "The list of queries")
    return GivenRows(as_numpy(value, "The value for the queries"), "queries", lengths)


def as_numpy(value: Any, where: str) -> NDArray[Any]:
    """An array, a frame, or a tensor of any device, as numbers or strings. Raises BadData."""
    if np.ma.is_masked(value):
        raise BadData(
            f"{where} is a masked array with values that do not count, which ttf would read as numbers.",
            hint="Fill them, or leave those rows out: array.filled(0), array[~array.mask.any(1)].",
        )
    try:
        if hasattr(value, "detach"):
            value = value.detach().cpu().resolve_conj().resolve_neg()
            if str(value.dtype) == "torch.bfloat16":  # numpy has no such type
                value = value.float()
        array = np.asarray(plain(value, where))
        if _is_column_of_vectors(array):
            array = stacked(array, where)
    except (ValueError, TypeError, OverflowError, NotImplementedError) as error:
        raise BadData(
            f"{where} cannot be read as one array of numbers: {error}",
            hint=(
                "Every row must have the same shape. Of several positives, fill shorter rows up "
                "with -1; sequences of different lengths are a list of arrays (steps, dim)."
            ),
        ) from error
    if array.dtype.kind == "S":
        array = np.char.decode(array, "utf-8")
    if array.dtype.name == "bfloat16":  # the type that jax and ml_dtypes add to numpy
        array = array.astype(np.float32)
    if array.dtype.kind == "O" and array.size and all(isinstance(v, str) for v in array.flat):
        array = array.astype(str)
    if array.dtype.kind not in "fiubU" or not array.ndim:
        raise BadData(
            f"{where} has the type {array.dtype} and the shape {array.shape}. It must be rows of "
            "numbers, or strings for ids.",
            hint=_as_numbers(value, array),
        )
    if array.dtype == np.uint64 and array.size and array.max() > np.uint64(2**63 - 1):
        raise BadData(
            f"{where} contains numbers that are too large for int64, up to {array.max()}.",
            hint="If these are ids, such as hashes, give them as text: ids.astype(str).",
        )
    return array


def _as_numbers(value: Any, array: NDArray[Any]) -> str:
    """How to make numbers of what was given; empty if nothing is known."""
    if hasattr(value, "toarray"):
        return "A sparse matrix must be made dense: matrix.toarray()."
    if array.dtype.kind == "c":
        return "Give real numbers, for example numpy.hstack([array.real, array.imag])."
    if array.dtype.kind == "O" and array.ndim > 1:
        return 'If all values are numbers: array.astype("float32"), or df.to_numpy("float32").'
    return ""


def _is_column_of_vectors(array: NDArray[Any]) -> bool:
    if array.dtype.kind != "O" or array.ndim != 1 or not array.size:
        return False
    return hasattr(array[0], "__len__") and not isinstance(array[0], str | bytes | Mapping)


def _dtype(array: NDArray[Any]) -> DType:
    return "float16" if array.dtype == np.float16 else _HELD[array.dtype.kind]
