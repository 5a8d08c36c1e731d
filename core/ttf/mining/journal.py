"""Results of a search as they grow on disk: a killed search continues after its last chunk."""

from __future__ import annotations

import contextlib
import zlib
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from ttf.errors import storage_error
from ttf.rundir.durable import fsync_dir, fsync_file, read_json, write_json

PROGRESS: Final = "progress.json"
IDS: Final = "ids.npy"
SCORES: Final = "scores.npy"
_DTYPES: Final[dict[str, np.dtype[Any]]] = {IDS: np.dtype("<i8"), SCORES: np.dtype("<f4")}


class Journal:
    """`ids.npy` and `scores.npy`, filled from the top; `progress.json` says how far, and is
    written after the rows are durable. Complete files are ordinary .npy files."""

    def __init__(self, folder: Path, shape: tuple[int, int], key: str) -> None:
        self._folder = folder
        self._shape = shape
        self._key = key
        self._chunks: list[dict[str, Any]] = []

    @classmethod
    def open(cls, folder: Path, shape: tuple[int, int], key: str) -> Self:
        """Continues what lies there if it has the same key and reads back; else starts anew."""
        journal = cls(folder, shape, key)
        folder.mkdir(parents=True, exist_ok=True)
        try:
            if not journal._resume():
                journal._start()
        except OSError as error:
            raise storage_error(error, str(folder)) from error
        return journal

    @classmethod
    def finished(cls, folder: Path, shape: tuple[int, int], key: str) -> Self | None:
        """One whose every row reads back as it was written; None if there is none. Changes
        nothing."""
        journal = cls(folder, shape, key)
        try:
            whole = journal._resume() and journal.done == shape[0]
            whole = whole and all(
                journal.path(name).stat().st_size == journal._offset(name, shape[0])
                for name in _DTYPES
            )
        except OSError:
            return None
        return journal if whole else None

    @staticmethod
    def forget(folder: Path) -> None:
        """What lies there is not to be believed: the next attempt starts anew."""
        with contextlib.suppress(OSError):  # then it cannot be continued either
            (folder / PROGRESS).unlink(missing_ok=True)

    def rows(self, name: str, start: int, stop: int) -> NDArray[Any]:
        """Read, not mapped: a file that is cut meanwhile is an error and no SIGBUS."""
        with self.path(name).open("rb") as file:
            file.seek(self._offset(name, start))
            found = np.fromfile(file, _DTYPES[name], (stop - start) * self._shape[1])
        return found.reshape(-1, self._shape[1])

    @property
    def done(self) -> int:
        """Queries whose answers are durable."""
        return sum(int(chunk["queries"]) for chunk in self._chunks)

    def append(self, ids: NDArray[np.int64], scores: NDArray[np.float32]) -> None:
        """The answers of the next queries; they are durable on return. Raises StorageError."""
        chunk: dict[str, Any] = {"queries": len(ids)}
        try:
            answers: dict[str, NDArray[Any]] = {IDS: ids, SCORES: scores}
            for name, values in answers.items():
                data = values.astype(_DTYPES[name], copy=False).tobytes()
                chunk[name] = zlib.crc32(data)
                with (self._folder / name).open("r+b") as file:
                    file.seek(self._offset(name, self.done))
                    file.write(data)
                    file.flush()
                    fsync_file(file.fileno())
        except OSError as error:
            raise storage_error(error, str(self._folder)) from error
        self._chunks.append(chunk)
        self._write_progress()

    def path(self, name: str) -> Path:
        return self._folder / name

    def _start(self) -> None:
        self._chunks = []
        (self._folder / PROGRESS).unlink(missing_ok=True)
        for name in _DTYPES:
            with (self._folder / name).open("wb") as file:
                file.write(self._header(name))
                file.flush()
                fsync_file(file.fileno())
        fsync_dir(self._folder)
        self._write_progress()

    def _resume(self) -> bool:
        try:
            progress = read_json(self._folder / PROGRESS)
            self._chunks = list(progress["chunks"])
            same = (progress["key"], progress["shape"]) == (self._key, list(self._shape))
            same = same and all(0 < chunk["queries"] <= self._shape[0] for chunk in self._chunks)
            same = same and self.done <= self._shape[0]
            return same and all(self._reads_back(name) for name in _DTYPES)
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return False

    def _reads_back(self, name: str) -> bool:
        """Whether the finished rows of a file are the ones that were written."""
        row = self._shape[1] * _DTYPES[name].itemsize
        with (self._folder / name).open("rb") as file:
            if file.read(self._offset(name, 0)) != self._header(name):
                return False
            return all(
                zlib.crc32(file.read(int(chunk["queries"]) * row)) == chunk[name]
                for chunk in self._chunks
            )

    def _write_progress(self) -> None:
        write_json(
            self._folder / PROGRESS,
            {"key": self._key, "shape": list(self._shape), "chunks": self._chunks},
        )

    def _header(self, name: str) -> bytes:
        import io

        header = io.BytesIO()
        np.lib.format.write_array_header_1_0(
            header,
            {
                "descr": np.lib.format.dtype_to_descr(_DTYPES[name]),
                "fortran_order": False,
                "shape": self._shape,
            },
        )
        return header.getvalue()

    def _offset(self, name: str, rows: int) -> int:
        return len(self._header(name)) + rows * self._shape[1] * int(_DTYPES[name].itemsize)
