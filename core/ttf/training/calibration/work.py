"""What a calibration has done so far, on disk: a killed one goes on, with the same bits.

`<run>/calibration/<key>/`: arrays, each a file that appears whole with a hash of its bytes. A part
that is missing or damaged is computed again, and is then the same: nothing depends on how the work
was cut.
"""

from __future__ import annotations

import hashlib
import io
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ttf.errors import ArtifactDamaged, storage_error
from ttf.rundir.confined import names_in, open_inside
from ttf.rundir.durable import write_atomically
from ttf.rundir.removing import remove_if_possible

WORK: Final = "calibration"
AREA: Final = "calibration"
_DIGEST: Final = 32


class Work:
    """`key`: of everything that the results depend on."""

    def __init__(self, run: Path, key: str) -> None:
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
                data = file.read()
            if hashlib.sha256(data[_DIGEST:]).digest() != data[:_DIGEST]:
                return None
            found: NDArray[Any] = np.load(io.BytesIO(data[_DIGEST:]), allow_pickle=False)
        except (OSError, ArtifactDamaged, ValueError, EOFError):
            return None
        return found

    def put(self, name: str, values: NDArray[Any]) -> None:
        """Durable on return. Raises StorageError."""
        file = io.BytesIO()
        np.save(file, values, allow_pickle=False)
        data = file.getvalue()
        write_atomically(self._folder / name, hashlib.sha256(data).digest() + data, AREA)

    def clear(self) -> None:
        remove_if_possible(self._folder.parent, self._run, AREA)
