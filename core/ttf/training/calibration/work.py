"""What a calibration has done so far, on disk: a killed one goes on, with the same bits.

`<run>/calibration/<key>/`: arrays, each a file that appears whole with a hash of its bytes. A part
that is missing or damaged is computed again, and is then the same: nothing depends on how the work
was cut.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ttf.data.vectors import npy_header
from ttf.errors import ArtifactDamaged, storage_error
from ttf.rundir.confined import names_in, open_inside
from ttf.rundir.durable import file_written_whole
from ttf.rundir.removing import remove_if_possible

WORK: Final = "calibration"
AREA: Final = "calibration"
_DIGEST: Final = 32
Keeps = Callable[[int], None]


class Work:
    """`key`: of everything that the results depend on. `keeps` hears how many arrays are there."""

    def __init__(self, run: Path, key: str, keeps: Keeps = lambda _: None) -> None:
        self._keeps = keeps
        self._there: set[str] = set()
        self._run = run
        self._folder = run / WORK / key
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            for name in names_in(run / WORK, run):
                if name != key:  # of other weights or settings
                    remove_if_possible(run / WORK / name, run, AREA)
        except OSError as error:
            raise storage_error(error, str(self._folder)) from error

    def get(self, name: str) -> NDArray[Any] | None:
        """An array that was put; None if there is none, or it does not read back."""
        try:
            with open_inside(self._folder / name, self._run) as file:
                wanted = file.read(_DIGEST)
                if hashlib.file_digest(file, "sha256").digest() != wanted:
                    return None
                file.seek(_DIGEST)
                found: NDArray[Any] = np.load(file, allow_pickle=False)
        except (OSError, ArtifactDamaged, ValueError, EOFError):
            return None
        self._note(name)
        return found

    def put(self, name: str, values: NDArray[Any]) -> None:
        """Durable on return. Raises StorageError."""
        header = npy_header(values.shape, values.dtype)
        data = np.ascontiguousarray(values).data.cast("B")
        digest = hashlib.sha256(header)
        digest.update(data)
        with file_written_whole(self._folder / name, AREA) as file:
            for part in (digest.digest(), header, data):
                file.write(part)
        file.close()
        self._note(name)

    def _note(self, name: str) -> None:
        self._there.add(name)
        self._keeps(len(self._there))

    def clear(self) -> None:
        remove_if_possible(self._folder.parent, self._run, AREA)
