"""Queries that are several passages: their arrivals one after another, and how many each has."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

_STEPS: Final = "sequences.steps"
_ENDS: Final = "sequences.ends"


@dataclass(frozen=True, kw_only=True)
class Sequences:
    """Sequence n has the arrivals steps[ends[n-1]:ends[n]] of the passages."""

    folder: Path

    def load(self, rows: NDArray[np.int64]) -> LoadedSequences:
        """`rows`: the row of each arrival."""
        steps = np.fromfile(self.folder / _STEPS, np.int64)
        ends = np.fromfile(self.folder / _ENDS, np.int64)
        return LoadedSequences(steps=rows[steps], ends=ends)


@dataclass(frozen=True, kw_only=True)
class LoadedSequences:
    steps: NDArray[np.int64]
    ends: NDArray[np.int64]

    @property
    def longest(self) -> int:
        return int(np.diff(self.ends, prepend=0).max(initial=1))

    def padded(self, numbers: NDArray[np.int64]) -> NDArray[np.int32]:
        """(rows, longest of all), -1 behind the last step."""
        starts = np.concatenate([[0], self.ends[:-1]])[numbers]
        sizes = self.ends[numbers] - starts
        offset = np.arange(self.longest)
        inside = offset < sizes[:, None]
        at = np.minimum(starts[:, None] + offset, len(self.steps) - 1)
        return np.where(inside, self.steps[at], -1).astype(np.int32)


class SequenceWriter:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._steps = (folder / _STEPS).open("wb", buffering=1 << 20)
        self._ends = (folder / _ENDS).open("wb", buffering=1 << 20)
        self._position = self._count = 0

    def add(self, steps: Sequence[int]) -> int:
        """The number of the sequence."""
        self._position += len(steps)
        self._steps.write(array("q", steps).tobytes())
        self._ends.write(array("q", [self._position]).tobytes())
        self._count += 1
        return self._count - 1

    def close(self) -> None:
        self._steps.close()
        self._ends.close()

    def finish(self) -> Sequences:
        self.close()
        return Sequences(folder=self._folder)
