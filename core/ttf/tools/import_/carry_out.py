"""Carries columns into folders of .npy files: bounded memory, resumable, verified, then renamed.

    OUT/.import/bank/     vectors.npy, ids.npy + blocks.bin    a block, then its note with a CRC-32
    OUT/.import/pairs/    X_train.npy, pos_train.npy + blocks.bin
         | all whole and read back
         v
    OUT/.import/import.json ──> OUT/pairs, OUT/bank, then OUT/import.json; killed in between: goes on

The output depends on the input alone, so that one which was killed often is equal byte for byte.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ttf.contracts import Progress
from ttf.data.vectors import numpy_dtype
from ttf.data.writing import block_rows, make_room
from ttf.errors import (
    ArtifactDamaged,
    BadData,
    ConfigError,
    FolderInUse,
    StorageError,
    storage_error,
)
from ttf.mining.growing_arrays import JOURNAL, GrowingArrays, Layout
from ttf.rundir.confined import names_in, open_inside, read_json, refuse_foreign, write_inside
from ttf.rundir.durable import fsync_dir, fsync_file, lock, write_json
from ttf.rundir.removing import remove_if_possible, remove_if_there
from ttf.tools.import_.columns import Column, Input

STAGING: Final = ".import"
CARD: Final = "import.json"
_AREA: Final = "import"
_LOCK: Final = "lock"
_VERSION: Final = 1


@dataclass(frozen=True, kw_only=True)
class Imported:
    """What `ttf data import --json` prints; also OUT/import.json."""

    source: str
    what: str
    key: str
    bank: str
    pairs: str | None
    arrays: list[dict[str, Any]]
    notes: list[str] = field(default_factory=list)
    resumed_at: int = 0
    """Rows that an earlier attempt had imported."""


def key_of(identities: Mapping[str, str], options: Mapping[str, Any]) -> str:
    facts = _VERSION, sorted(identities.items()), sorted(options.items(), key=str)
    return hashlib.sha256(repr(facts).encode()).hexdigest()


@contextlib.contextmanager
def staging(out: Path) -> Iterator[Path]:
    """The folder of unfinished work, held against other processes. It goes with an input that is bad:
    a better one is another input, which begins anew."""
    folder = out / STAGING
    made = not out.exists()
    try:
        refuse_foreign(out, (CARD,), (STAGING,))  # the folder may be of anybody
        folder.mkdir(parents=True, exist_ok=True)
        held = write_inside(folder / _LOCK, folder)
    except OSError as error:
        raise storage_error(error, str(folder)) from error
    with held:
        if not lock(held.fileno()):
            raise FolderInUse(
                f"Another import writes to {out} right now.", hint="Wait for it, or choose --out."
            )
        try:
            yield folder
        except BadData:
            remove_if_possible(folder, out)
            if made:
                with contextlib.suppress(OSError):
                    out.rmdir()
            raise


def finished(out: Path, key: str) -> Imported | None:
    """The import with this key if it is complete in `out`."""
    with contextlib.suppress(OSError, ArtifactDamaged, TypeError, KeyError):
        card = read_json(out / CARD, out)
        if card["key"] == key and all((out / name).is_dir() for name in _containers(card)):
            return Imported(**card)
    return None


def check_free(out: Path, *, overwrite: bool) -> None:
    """Raises ConfigError if results of something else are there."""
    there = [name for name in ("bank", "pairs", CARD) if os.path.lexists(out / name)]
    if there and not overwrite:
        raise ConfigError(
            f"{out} already contains {', '.join(there)} of something else.",
            hint="Choose another --out, or add --overwrite.",
        )


def carry_out(
    out: Path,
    folder: Path,
    containers: Mapping[str, Mapping[str, Column]],
    card: Imported,
    progress: Progress | None,
    inputs: Sequence[Input],
) -> Imported:
    """`containers`: columns of "bank" and "pairs". Raises BadData and StorageError."""
    layouts = {name: _layouts(columns) for name, columns in containers.items()}
    sizes = [layout.offset(layout.shape[0]) for of in layouts.values() for layout in of.values()]
    make_room(folder, sum(sizes) - _bytes_in(folder))
    total = sum(next(iter(of.values())).shape[0] for of in layouts.values())
    done = 0
    growing = {}
    for name, of in layouts.items():
        growing[name] = GrowingArrays.open(folder / name, folder, of, card.key, _AREA)
    resumed_at = sum(arrays.done for arrays in growing.values())
    for name, columns in containers.items():
        arrays = growing[name]
        step = block_rows((1, sum(layout.row_bytes for layout in layouts[name].values())), 1)
        while arrays.done < arrays.length:
            stop = min(arrays.done + step, arrays.length)
            arrays.append(*(_rows(column, arrays.done, stop) for column in columns.values()))
            if progress is not None:
                progress(done + arrays.done, total)
        done += arrays.length
    for name, of in layouts.items():
        _verify(folder / name, folder, of, card.key)
    for given in inputs:
        given.check_unchanged()
    done_card = {**asdict(card), "resumed_at": 0}
    _mark_bfloat16(folder, containers)
    _make_durable(folder, containers)
    write_json(folder / CARD, done_card, _AREA)
    publish(out, folder)
    return Imported(**{**done_card, "resumed_at": resumed_at})


def publish(out: Path, folder: Path) -> Imported:
    """Renames what is complete; called again, it goes on where it was killed."""
    card = Imported(**read_json(folder / CARD, folder))
    try:
        for name in ("pairs", "bank"):
            staged, target = folder / name, out / name
            if not staged.is_dir():
                if name not in _containers(asdict(card)):
                    remove_if_there(target, out, _AREA)  # of an import that this one replaces
                continue
            remove_if_there(staged / JOURNAL, folder, _AREA)
            remove_if_there(target, out, _AREA)
            staged.rename(target)
            fsync_dir(out, _AREA)
        (folder / CARD).rename(out / CARD)
        fsync_dir(out, _AREA)
    except OSError as error:
        raise storage_error(error, str(out)) from error
    remove_if_possible(folder, out)
    return card


def is_complete(folder: Path, key: str) -> bool:
    """Everything is verified, and only names are left to change."""
    with contextlib.suppress(OSError, ArtifactDamaged, TypeError, KeyError):
        return bool(read_json(folder / CARD, folder)["key"] == key)
    return False


def drop_others(folder: Path, key: str) -> None:
    """Removes finished work of another import, which was killed while it was renamed."""
    if (folder / CARD).exists() and not is_complete(folder, key):
        for name in set(names_in(folder, folder)) - {_LOCK}:
            remove_if_there(folder / name, folder, _AREA)


def _containers(card: Mapping[str, Any]) -> list[str]:
    return [name for name in ("bank", "pairs") if card[name]]


def _layouts(columns: Mapping[str, Column]) -> dict[str, Layout]:
    found = {}
    for name, column in columns.items():
        if column.dtype == "text":
            dtype = f"S{max(1, column.longest_text())}"
        else:
            dtype = numpy_dtype(column.dtype).str
        found[f"{name}.npy"] = Layout(column.shape, dtype)
    return found


def _rows(column: Column, start: int, stop: int) -> NDArray[Any]:
    rows = column.read(start, stop)
    return np.char.encode(rows, "utf-8") if column.dtype == "text" else rows


def _verify(folder: Path, inside: Path, layouts: Mapping[str, Layout], key: str) -> None:
    if GrowingArrays.finished(folder, inside, layouts, key, _AREA) is None:
        GrowingArrays.forget(folder)
        raise StorageError(
            f"What was written to {folder} does not read back as it was written.",
            hint="Check the disk, then run the same command again.",
        )


def _mark_bfloat16(folder: Path, containers: Mapping[str, Mapping[str, Column]]) -> None:
    # numpy has no such type: a file beside the array says that its bits are bfloat16.
    for name, columns in containers.items():
        for array, column in columns.items():
            if column.dtype == "bfloat16":
                path = folder / name / f"{array}.dtype.npy"
                with write_inside(path, folder, anew=True) as file:
                    np.save(file, np.array("bfloat16"))


def _make_durable(folder: Path, containers: Mapping[str, Mapping[str, Column]]) -> None:
    try:
        for name in containers:
            for entry in names_in(folder / name, folder):
                path = folder / name / entry
                with open_inside(path, folder) as file:
                    fsync_file(file.fileno(), path, _AREA)
            fsync_dir(folder / name, _AREA)
    except OSError as error:
        raise storage_error(error, str(folder)) from error


def _bytes_in(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*.npy"))
