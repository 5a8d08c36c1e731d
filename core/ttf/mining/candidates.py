"""Candidate tables: the result of one mining round, with scores.

Negatives are filtered when they are drawn, so a margin can change without mining again. A table is
a folder of .npy files and a manifest of their hashes, written whole or not at all.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from ttf.errors import ArtifactDamaged
from ttf.rundir.durable import OpenFile, write_manifest
from ttf.rundir.removing import folder_written_whole
from ttf.rundir.verified_folders import ARRAYS, MANIFEST, TABLE_AREA, verified_table

_TYPES: Final = tuple(map(np.dtype, ("int64", "int64", "float32", "float32")))


@dataclass(frozen=True, kw_only=True)
class CandidateTable:
    """The k best bank rows of some training queries, best first."""

    rows: NDArray[np.int64]  # (Q,) rows of the training split, ascending.
    ids: NDArray[np.int64]  # (Q, k) bank rows.
    scores: NDArray[np.float32]  # (Q, k) of the query tower at mining time.
    # (Q,) the lowest score among the query's known positives, under the same tower; NaN if none is
    # known.
    positive_scores: NDArray[np.float32]
    key: str  # Hash of what it was mined from; names its folder.
    version: str = "0"  # Of the document tower; always 0 if that is frozen.
    miner: str = ""

    def __post_init__(self) -> None:
        queries, k = self.ids.shape
        shapes = self.rows.shape, self.positive_scores.shape, self.scores.shape
        types = self.rows.dtype, self.ids.dtype, self.scores.dtype, self.positive_scores.dtype
        if shapes != ((queries,), (queries,), (queries, k)) or types != _TYPES:
            raise ValueError(f"arrays of {types} with the shapes {(self.ids.shape, *shapes)}")

    def __len__(self) -> int:
        return len(self.rows)

    def positions(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Positions of sample rows in this table; -1 for rows that are not in it."""
        if not len(self.rows):
            return np.full(len(rows), -1, np.int64)
        at = np.minimum(np.searchsorted(self.rows, rows), len(self.rows) - 1)
        return np.where(self.rows[at] == rows, at, -1).astype(np.int64)

    def save(self, candidates: Path) -> Path:
        """Writes `<candidates>/<key>/`, durably; returns that folder."""
        folder = candidates / self.key
        candidates.mkdir(parents=True, exist_ok=True)
        with folder_written_whole(folder, TABLE_AREA) as temp:
            hashes = {f"{name}.npy": self._write(name, temp) for name in ARRAYS}
            facts = {
                "key": self.key,
                "version": self.version,
                "miner": self.miner,
                "queries": len(self),
                "k": int(self.ids.shape[1]),
            }
            write_manifest(temp / MANIFEST, facts, hashes, TABLE_AREA)
        return folder

    def _write(self, name: str, folder: Path) -> str:
        # Returns the hash of the intended bytes.
        file = OpenFile(folder / f"{name}.npy", TABLE_AREA)
        try:
            np.save(file, getattr(self, name), allow_pickle=False)
        finally:
            file.close()
        return file.sha256

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Verifies every file against its hash, then maps them. Raises ArtifactDamaged."""
        manifest = verified_table(folder)
        try:
            arrays: dict[str, Any] = {
                name: np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False)
                for name in ARRAYS
            }
            table = cls(
                **arrays,
                key=str(manifest["key"]),
                version=str(manifest["version"]),
                miner=str(manifest["miner"]),
            )
        except (LookupError, ValueError, OSError) as error:
            # The hashes are right: it was written like this, and not by ttf.
            raise ArtifactDamaged(
                f"The candidate table {folder} is damaged ({error}).",
                hint="Delete the folder: ttf then mines the candidates again.",
            ) from error
        return table
