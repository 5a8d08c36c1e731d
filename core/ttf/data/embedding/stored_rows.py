"""Every row of a table on disk: a base file, and the journal of what changed since.

`table.json` says what the table is and how many segments of the journal the base file holds
(`applied`). Reading takes a row from the newest segment that has it, else from the base file, else
it has its initial values. Applying writes the rows of the oldest segments into the base file, and
can be done again after a crash: until `table.json` says that it is done, the segments are there.

Not safe for several threads: `transfers` gives it one of its own.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
from filelock import FileLock, Timeout
from numpy.typing import NDArray

from ttf.data.embedding.journal import AREA, SYNC_BYTES, Segment, committed_numbers, remove_others
from ttf.data.embedding.positions import Reader
from ttf.data.embedding.records import UNIT, Layout, Records
from ttf.data.embedding.settings import JOURNAL_BYTES
from ttf.errors import ArtifactDamaged, ConfigError, FolderInUse, storage_error
from ttf.machine.memory.limits import limit_in_force
from ttf.rundir.confined import names_in, read_json, refuse_foreign
from ttf.rundir.durable import (
    TEMP_PREFIX,
    PlacedFile,
    fsync_dir,
    make_dir,
    unlink,
    write_json,
)

FORMAT: Final = 1
FACTS: Final = "table.json"
_BASE: Final = "rows.bin"
_JOURNAL: Final = "journal"
_LOCK: Final = ".lock"
_PLACES: Final = 8  # Of segments that are in use at the same time; 3 bits of a position.
_SHIFT: Final = 29
_IN_SEGMENT: Final = (1 << _SHIFT) - 1
_AT_ONCE: Final = 1 << 14


class StoredRows:
    """Opened by one process at a time; `version` is the newest committed segment."""

    def __init__(
        self, path: Path, rows: int, layout: Layout, kind: str, at_version: int | None
    ) -> None:
        """Makes the table if there is none. `at_version`: forgets what was committed after it."""
        self.path = path
        self.rows = rows
        self.layout = layout
        self.bytes_read = 0
        self._kind = kind
        self._reader = Reader(cached=_has_room(rows * layout.size))
        self._folder = path / _JOURNAL
        # Position of each row's newest record in the journal: place of the segment, unit. 0: none.
        self._where = np.zeros(rows, np.uint32)
        self._segments: list[Segment] = []
        self._open: Segment | None = None
        self._base: PlacedFile | None = None
        self._under_way: Iterator[None] | None = None
        self._lock = FileLock(path / _LOCK)
        if at_version and not os.path.lexists(path):
            raise self._incomplete("the folder")  # A new table would hide that it is lost.
        try:
            path.mkdir(parents=True, exist_ok=True)
            refuse_foreign(path, (_LOCK, FACTS, _BASE), (_JOURNAL,))
            self._take_lock()
            self._open_or_make(at_version)
        except FileNotFoundError as error:
            self.close()
            raise self._incomplete(Path(error.filename or "a file").name) from error
        except OSError as error:
            self.close()
            raise storage_error(error, str(path)) from error
        except BaseException:
            self.close()
            raise

    def _incomplete(self, lost: str) -> ArtifactDamaged:
        return ArtifactDamaged(
            f"The embedding table {self.path} is incomplete: {lost} is missing.",
            hint="Restore the folder from a copy.",
        )

    def _take_lock(self) -> None:
        try:
            self._lock.acquire(timeout=0)
        except Timeout:
            raise FolderInUse(
                f"The embedding table {self.path} is in use by another process, or opened twice.",
                hint="Close the other one first.",
            ) from None

    def _open_or_make(self, at_version: int | None) -> None:
        facts = self._facts()
        if not os.path.lexists(self.path / FACTS):
            _refuse_files_of_others(self.path)
            write_json(self.path / FACTS, {**facts, "applied": 0}, AREA)
        found = read_json(self.path / FACTS, self.path)
        self._applied = self._checked(facts, found)
        base, size = self.path / _BASE, self.rows * self.layout.size
        if not self._applied:
            self._make_missing(base, size)
        numbers = committed_numbers(self._folder, self._applied)
        self._base = PlacedFile(base, AREA)
        there = os.fstat(self._base.fd).st_size
        if there != size:
            raise ArtifactDamaged(
                f"{base} has {there:,} bytes instead of {size:,}: it was cut, or is another table's.",
                hint="Restore the folder from a copy.",
            )
        self._keep(numbers, at_version)

    def _keep(self, numbers: list[int], at_version: int | None) -> None:
        newest = numbers[-1] if numbers else self._applied
        if at_version is not None and not self._applied <= at_version <= newest:
            raise ArtifactDamaged(
                f"The embedding table {self.path} has the versions {self._applied} to {newest}, but "
                f"not {at_version}.",
                hint="Restore the folder from a copy of the same time as what names that version.",
            )
        kept = [n for n in numbers if at_version is None or n <= at_version]
        remove_others(self._folder, kept)
        for number in kept:
            segment = Segment.committed(self._folder, number, self.layout.units)
            self._segments.append(segment)
            for block in segment.scan():
                self._refuse_outside(block.ids, segment)
                self._where[block.ids] = self._positions(segment, block.units)

    def _make_missing(self, base: Path, size: int) -> None:
        """Of a table that is new, or whose process died while it made it: the base file is the last
        thing that it made. Before that there is nothing to lose."""
        if os.path.lexists(base) and base.lstat().st_size == size:
            return
        if not os.path.lexists(self._folder):
            make_dir(self._folder, AREA)
        if committed_numbers(self._folder, 0):
            return  # It was whole once, and then cut.
        if os.path.lexists(base):
            unlink(base, AREA)
        made = PlacedFile(base, AREA, size=size)
        try:
            made.sync()
        finally:
            made.close()
        fsync_dir(self.path, AREA)

    def _facts(self) -> dict[str, Any]:
        layout = self.layout
        return {
            "format": FORMAT,
            "rows": self.rows,
            "dim": layout.dim,
            "optimizer": self._kind,
            "seed": layout.seed,
            **({"zeros": True} if layout.zeros else {}),
        }

    def _checked(self, wanted: dict[str, Any], found: Any) -> int:
        """How many segments the base file holds, by the facts of the table."""
        applied = found.get("applied") if isinstance(found, dict) else None
        known = isinstance(found, dict) and wanted.keys() - {"zeros"} <= found.keys()
        if not known or not isinstance(applied, int) or isinstance(applied, bool) or applied < 0:
            raise ArtifactDamaged(
                f"{self.path / FACTS} is damaged: it does not describe an embedding table.",
                hint="Restore the folder from a copy.",
            )
        for name, value in {"zeros": None, **wanted}.items():
            if found.get(name) != value:
                raise ConfigError(
                    f"The embedding table {self.path} has {name} = {found.get(name)!r}, not "
                    f"{value!r}.",
                    hint="Open it with its own values, or choose another folder.",
                )
        return applied

    def _refuse_outside(self, ids: NDArray[np.int64], segment: Segment) -> None:
        if len(ids) and not (ids.min() >= 0 and ids.max() < self.rows):
            raise ArtifactDamaged(f"{segment.path} names rows that the table does not have.")

    # --- rows ---------------------------------------------------------------------------------------

    @property
    def version(self) -> int:
        segments = self._segments  # Another thread may replace the list.
        return segments[-1].number if segments else self._applied

    @property
    def open_bytes(self) -> int:
        """Of the journal, since the last commit."""
        opened = self._open
        return opened.size if opened is not None else 0

    @property
    def journal_bytes(self) -> int:
        return self.open_bytes + sum(segment.size for segment in self._segments)

    def read(self, ids: NDArray[np.int64]) -> Records:
        """The newest records of distinct rows."""
        out = np.empty((len(ids), self.layout.words), np.float32)
        where = self._where[ids]
        assert self._base is not None
        base = where == 0
        self._read_from(self._base.fd, _BASE, ids * self.layout.units, base, out)
        live = [*self._segments, *([self._open] if self._open is not None else [])]
        if not base.all():
            for segment in live:
                here = ~base & (where >> _SHIFT == segment.number % _PLACES)
                units = (where & _IN_SEGMENT).astype(np.int64)
                self._read_from(segment.fd, str(segment.path), units, here, out)
        self.layout.fill_fresh(ids, out)
        return out

    def _read_from(
        self, fd: int, name: str, units: NDArray[np.int64], mask: NDArray[np.bool_], out: Records
    ) -> None:
        places = np.flatnonzero(mask)
        if not len(places):
            return
        order = places[np.argsort(units[places], kind="stable")]
        self.bytes_read += self._reader.read(fd, name, units[order], out, order)

    def append(self, ids: NDArray[np.int64], records: Records) -> None:
        """New values of distinct rows, for the next commit. Raises StorageError."""
        if not len(ids):
            return
        if self._open is None:
            self._open = Segment.begin(self._folder, self.version + 1, self.layout.units)
        self._where[ids] = self._positions(self._open, self._open.append(ids, records))

    def _positions(self, segment: Segment, units: NDArray[np.int64]) -> NDArray[np.uint32]:
        return (units | (segment.number % _PLACES) << _SHIFT).astype(np.uint32)

    # --- commits ------------------------------------------------------------------------------------

    def commit(self) -> int:
        """Makes everything that was appended durable, as one change; returns the version."""
        segment, self._open = self._open, None
        if segment is not None:
            try:
                segment.commit()
            except BaseException:
                segment.close()  # It does not count, and is removed at the next opening.
                raise
            self._segments.append(segment)
        if len(self._segments) == _PLACES - 1:
            self.apply(self._segments[0].number)
        return self.version

    def apply(self, version: int) -> None:
        """Writes the rows of the segments up to `version` into the base file; older versions can
        no longer be opened. Raises StorageError."""
        for _ in self.applying(version):
            pass

    def applying(self, version: int | None) -> Iterator[None]:
        """`apply` in parts (None: of all that is committed when it begins); reading, appending and committing are allowed between two of them."""
        if self._under_way is not None:
            yield from self._under_way  # One after the other: segments go in their order.
        self._under_way = under_way = self._applying(version)
        yield from under_way
        if self._under_way is under_way:
            self._under_way = None

    def _applying(self, version: int | None) -> Iterator[None]:
        last = self.version if version is None else version
        old = [segment for segment in self._segments if segment.number <= last]
        if not old:
            return
        assert self._base is not None
        try:
            for segment in old:
                yield from self._write_base(segment)
            self._base.sync()
            self._applied = old[-1].number
            write_json(self.path / FACTS, {**self._facts(), "applied": self._applied}, AREA)
        except OSError as error:
            raise storage_error(error, str(self.path)) from error
        self._forget(old)

    def _write_base(self, segment: Segment) -> Iterator[None]:
        assert self._base is not None
        newest = np.zeros(self.rows, np.uint32)
        for block in segment.scan():
            newest[block.ids] = block.units
            yield
        rows = np.flatnonzero(newest)
        unsynced = 0
        for start in range(0, len(rows), _AT_ONCE):
            ids = rows[start : start + _AT_ONCE]
            units = newest[ids].astype(np.int64)
            self._base.will_need(
                int(ids[0]) * self.layout.size, int(ids[-1] - ids[0]) * self.layout.size
            )
            every = np.ones(len(ids), np.bool_)
            records = np.empty((len(ids), self.layout.words), np.float32)
            self._read_from(segment.fd, str(segment.path), units, every, records)
            self._write_runs(ids, records)
            unsynced += records.nbytes
            if unsynced > SYNC_BYTES:
                self._base.sync()
                unsynced = 0
            yield

    def _write_runs(self, ids: NDArray[np.int64], records: Records) -> None:
        # Neighbouring rows in one write. Rows between them are left alone: a torn write must not
        # touch what the journal does not hold.
        assert self._base is not None
        edges = [0, *(np.flatnonzero(np.diff(ids) != 1) + 1).tolist(), len(ids)]
        for start, stop in itertools.pairwise(edges):
            self._base.write_at(int(ids[start]) * self.layout.size, records[start:stop].data)

    def _forget(self, old: list[Segment]) -> None:
        places = {segment.number % _PLACES for segment in old}
        self._segments = self._segments[len(old) :]
        if not self._segments and self._open is None:
            self._where[:] = 0
        else:
            gone = np.isin(self._where >> _SHIFT, list(places)) & (self._where > 0)
            self._where[gone] = 0
        for segment in old:
            segment.remove()

    def close(self) -> None:
        for segment in (*self._segments, *([self._open] if self._open is not None else [])):
            segment.close()
        if self._base is not None:
            self._base.close()
        self._lock.release()


def _refuse_files_of_others(path: Path) -> None:
    """A new table needs an empty folder: it would write over files that have the names of its own."""
    own = {_LOCK, FACTS}
    others = [name for name in names_in(path, path) if name not in own and TEMP_PREFIX not in name]
    if others:
        some = ", ".join(map(repr, others[:3])) + (", ..." if len(others) > 3 else "")
        raise ConfigError(
            f"{path} is not empty ({some}), and is no embedding table: it has no {FACTS}.",
            hint=f"Choose a new folder. If it was a table, restore its {FACTS} from a copy.",
        )


def _has_room(size: int) -> bool:
    """Whether a file of this size and its journal fit into half of the memory: the other half is for
    the program."""
    return 2 * (size + JOURNAL_BYTES) <= limit_in_force().bytes


def size_on_disk(path: Path) -> int:
    """Bytes that a table's files take; a sparse file takes less than its length."""
    files = [path / _BASE, *(path / _JOURNAL).glob("*")]
    return sum(file.stat().st_blocks * 512 for file in files if file.exists())


assert _PLACES << _SHIFT == 1 << 32
assert UNIT == 64
