"""Whether what a command read of a damaged file is what stands in it.

A command that ends well and without a warning has read the values of the undamaged file, or those that the
damaged file holds by the word of another reader: numpy with the checksums of the archive, or
zarr-python. Damage that both read alike cannot be seen in the file: a value of a chunk without a checksum, a filter
that was added to a document.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Values = Mapping[str, NDArray[Any]]

MOST_BYTES: Final = 1 << 26
_CLOSE: Final = 1e-3


def wrong_values(words: str, place: Path, good: Path) -> str:
    """What was read wrongly by a command that ended well; empty if all was right."""
    return _JUDGES[_start(words)](words.split(), place, good)


def can_be_judged(words: str) -> bool:
    """True for commands that show what they read."""
    return bool(_start(words))


def _start(words: str) -> str:
    return next((start for start in _JUDGES if words.startswith(start)), "")


def values_of(path: Path) -> Values:
    """Raises if the reader of the library does."""
    return _zarr(path) if path.is_dir() else _npz(path)


def _npz(path: Path) -> Values:
    with np.load(path) as archive:
        held = {name: archive[name] for name in archive.files}
    # A member that does not begin as an array is bytes.
    return {name: values for name, values in held.items() if isinstance(values, np.ndarray)}


def _zarr(path: Path) -> Values:
    import zarr

    with tempfile.TemporaryDirectory() as there:
        copy = Path(there) / path.name
        shutil.copytree(path, copy, ignore=_no_files)
        # One by one: a group is looked into by tasks that tell of their errors on the terminal.
        folders = [folder for folder in (copy, *copy.iterdir()) if _is_array(folder)]
        opened = {f.name: zarr.open_array(str(f), mode="r") for f in folders}
        return {name: array[...] for name, array in opened.items() if array.nbytes <= MOST_BYTES}


def _is_array(folder: Path) -> bool:
    if (folder / ".zarray").is_file():
        return True
    document = folder / "zarr.json"
    return document.is_file() and b'"array"' in document.read_bytes()


def _no_files(folder: str, names: list[str]) -> set[str]:
    # Links and pipes: a reader that opens one may never end.
    paths = ((name, Path(folder) / name) for name in names)
    return {name for name, path in paths if path.is_symlink() or not (path.is_file() or path.is_dir())}  # fmt: skip


# --- what each command shows of what it read ------------------------------------------------------


def _converted(_: list[str], place: Path, good: Path) -> str:
    read = values_of(place / "copy.npz")
    other = [name for name, values in read.items() if not _is_in(values, good)]
    if other:
        held = _or_why_not(_bad(place))
        if isinstance(held, str):
            return f"{other} were read from what no other reader takes: {held}"
        other = [name for name in other if not any(_equal(read[name], v) for v in held.values())]
    return f"{other} are other values than the file holds" if other else ""


def _verified(_: list[str], place: Path, good: Path) -> str:
    if _bad(place).is_dir():
        # Zarr-python refuses documents for keys that no value depends on; convert shows the values.
        return ""
    held = _or_why_not(_bad(place))
    return f"no other reader takes the file: {held}" if isinstance(held, str) else ""


def _mined(words: list[str], place: Path, good: Path) -> str:
    """The scores of all documents follow from the vectors that were read."""
    with np.load(place / "found.npz") as found:
        scores = found["scores"]
    if isinstance(_or_why_not(_bad(place)), str):
        return ""  # it maps rows, as training does: `ttf data verify` compares checksums
    queries, bank = (place / words[words.index(option) + 1] for option in ("--queries", "--bank"))
    pairs = [(q, d) for q in _candidates(queries, good) for d in _candidates(bank, good)]
    if any(_scores_of(q, d, scores) for q, d in pairs):
        return ""
    return "the scores do not follow from the vectors that the files hold"


def _candidates(path: Path, good: Path) -> Iterator[NDArray[Any]]:
    held = [*values_of(good).values()]
    if not path.name.startswith("bad"):
        held = [*values_of(path).values()]
    elif not isinstance(other := _or_why_not(path), str):
        held += other.values()
    yield from (v.astype(np.float32) for v in held if v.ndim == 2 and v.dtype.kind in "fiub")


def _scores_of(q: NDArray[Any], d: NDArray[Any], scores: NDArray[Any]) -> bool:
    if q.shape[1] != d.shape[1] or scores.shape != (len(q), len(d)):
        return False
    with np.errstate(all="ignore"):
        expected = -np.sort(-(_unit(q) @ _unit(d).T), axis=1)
    return bool(np.allclose(expected, scores, atol=_CLOSE, equal_nan=True))


def _unit(rows: NDArray[Any]) -> NDArray[Any]:
    long = rows.astype(np.float64)
    unit: NDArray[Any] = long / np.linalg.norm(long, axis=1, keepdims=True)
    return unit


_JUDGES: Final[dict[str, Callable[[list[str], Path, Path], str]]] = {
    "data convert bad": _converted,
    "data verify bad": _verified,
    "mine ": _mined,
}


# --- comparing ------------------------------------------------------------------------------------


def _bad(place: Path) -> Path:
    return next(path for path in place.iterdir() if path.stem == "bad")


def _or_why_not(path: Path) -> Values | str:
    try:
        return values_of(path)
    except Exception as error:  # noqa: BLE001 - the reader's own, of any kind
        return f"{type(error).__name__}: {error}"


def _is_in(values: NDArray[Any], good: Path) -> bool:
    return any(_equal(values, other) for other in values_of(good).values())


def _equal(one: NDArray[Any], other: NDArray[Any]) -> bool:
    """After conversion: doubles are floats afterwards, and integers have another size."""
    if one.shape != other.shape:
        return False
    if one.dtype.kind not in "fiub" or other.dtype.kind not in "fiub":
        return bool(np.array_equal(one.astype(str), other.astype(str)))
    with np.errstate(all="ignore"):
        return bool(np.array_equal(one, other.astype(one.dtype), equal_nan=one.dtype.kind == "f"))
