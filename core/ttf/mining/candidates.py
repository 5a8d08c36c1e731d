"""Candidate tables: what one mining round found, kept with its scores.

Negatives are filtered when they are drawn, so a margin can change without mining again. A table is
a folder of .npy files and a manifest of their hashes, written whole or not at all.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ttf.rundir.durable import OpenFile, folder_written_whole, json_bytes, write_new
from ttf.rundir.table_files import AREA, ARRAYS, MANIFEST, verified_manifest

__all__ = ["MANIFEST", "CandidateTable"]


@dataclass(frozen=True, kw_only=True)
class CandidateTable:
    """The k best bank rows of some training queries, best first."""

    rows: NDArray[np.int64]
    """(Q,) rows of the training split, ascending."""
    ids: NDArray[np.int64]
    """(Q, k) bank rows."""
    scores: NDArray[np.float32]
    """(Q, k) of the query tower at mining time."""
    positive_scores: NDArray[np.float32]
    """(Q,) the lowest score among the query's known positives, under the same tower; NaN where
    none is known."""
    key: str
    """What it was mined from, hashed; names its folder."""
    version: str = "0"
    """Of the document tower; 0 for ever where it is frozen."""
    miner: str = ""

    def __post_init__(self) -> None:
        queries, k = self.ids.shape
        assert self.rows.shape == self.positive_scores.shape == (queries,)
        assert self.scores.shape == (queries, k)

    def __len__(self) -> int:
        return len(self.rows)

    def positions(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Where sample rows stand in this table; -1 for those it does not cover."""
        if not len(self.rows):
            return np.full(len(rows), -1, np.int64)
        at = np.minimum(np.searchsorted(self.rows, rows), len(self.rows) - 1)
        return np.where(self.rows[at] == rows, at, -1).astype(np.int64)

    def content_hash(self) -> str:
        """Equal for equal numbers: what a checkpoint commits to."""
        digest = hashlib.sha256(f"{self.key}|{self.version}".encode())
        for name in ARRAYS:
            digest.update(np.ascontiguousarray(getattr(self, name)).data)
        return digest.hexdigest()

    def stats(self) -> dict[str, Any]:
        """What metrics.jsonl and the report show about a table."""
        quantiles = {f"{name}_p{q}": value for name, q, value in self._quantiles()}
        known = np.isfinite(self.positive_scores)
        above = (self.scores > self.positive_scores[:, None]).sum(axis=1)[known]
        return {
            "queries": len(self),
            "k": int(self.ids.shape[1]),
            "miner": self.miner,
            "distinct_documents": len(np.unique(self.ids)),
            "above_positive_mean": float(above.mean()) if above.size else None,
            **quantiles,
        }

    def save(self, candidates: Path) -> Path:
        """Writes `<candidates>/<key>/`, durably; returns that folder."""
        folder = candidates / self.key
        candidates.mkdir(parents=True, exist_ok=True)
        with folder_written_whole(folder, AREA) as temp:
            hashes = {f"{name}.npy": self._write(name, temp) for name in ARRAYS}
            manifest = {
                "key": self.key,
                "version": self.version,
                "miner": self.miner,
                "queries": len(self),
                "k": int(self.ids.shape[1]),
                "sha256": hashes,
            }
            write_new(temp / MANIFEST, json_bytes(manifest), AREA)
        return folder

    def _write(self, name: str, folder: Path) -> str:
        """Returns the hash of what was meant to be written."""
        file = OpenFile(folder / f"{name}.npy", AREA)
        try:
            np.save(file, getattr(self, name), allow_pickle=False)
        finally:
            file.close()
        return file.sha256

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Verifies every file against its hash, then maps them. Raises ArtifactDamaged."""
        manifest = verified_manifest(folder)
        arrays: dict[str, Any] = {
            name: np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False)
            for name in ARRAYS
        }
        return cls(
            **arrays, key=manifest["key"], version=manifest["version"], miner=manifest["miner"]
        )

    def _quantiles(self) -> list[tuple[str, int, float]]:
        columns = {"best": self.scores[:, 0], "last": self.scores[:, -1]} if len(self) else {}
        return [
            (name, q, float(np.quantile(values, q / 100)))
            for name, values in columns.items()
            for q in (10, 50, 90)
        ]
