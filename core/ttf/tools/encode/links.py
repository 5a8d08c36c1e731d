"""Which document belongs to which query: 30 bytes a link, first on the disk, then in memory."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

LINK: Final = np.dtype(
    [
        ("query", "<i8"),
        ("document", "<i8"),
        ("grade", "<f4"),
        ("score", "<f4"),
        ("split", "u1"),
        ("negative", "u1"),
    ]
)
_PACKED: Final = struct.Struct("<qqffBB")


class LinkWriter:
    """Links between arrivals, in the order in which they were read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = path.open("wb", buffering=1 << 20)
        self.count = 0

    def add(
        self, query: int, document: int, grade: float, score: float, split: int, negative: int
    ) -> None:
        self._file.write(_PACKED.pack(query, document, grade, score, split, negative))
        self.count += 1

    def close(self) -> None:
        self._file.close()

    def finish(self) -> Links:
        self.close()
        return Links(path=self._path)


@dataclass(frozen=True, kw_only=True)
class Links:
    path: Path

    def read(self) -> NDArray[Any]:
        return np.fromfile(self.path, LINK)


@dataclass(frozen=True, kw_only=True)
class Grouped:
    """One split: a row for each of its queries. Padding: -1, 0 or NaN."""

    queries: NDArray[np.int64]
    positives: NDArray[np.int64]
    grades: NDArray[np.float32]
    scores: NDArray[np.float32] | None
    negatives: NDArray[np.int64] | None
    negative_scores: NDArray[np.float32] | None

    def __len__(self) -> int:
        return len(self.queries)

    def part(self, chosen: NDArray[np.bool_]) -> Grouped:
        """Its rows of a mask."""
        taken: Any = {
            name: None if value is None else value[chosen] for name, value in vars(self).items()
        }
        return Grouped(**taken)


def grouped(links: NDArray[Any]) -> tuple[Grouped, int]:
    """Groups the links of one split (rows, not arrivals) by their query; also returns how many
    negatives were left out because they are positives of the same query."""
    positive = _distinct(links[links["negative"] == 0])
    negative = _distinct(links[links["negative"] == 1])
    queries, row = np.unique(positive["query"], return_inverse=True)
    known = np.isin(negative["query"], queries)
    documents = int(links["document"].max(initial=0)) + 1
    wrong = np.isin(_pair_keys(negative, documents), _pair_keys(positive, documents))
    left_out = int(wrong.sum())
    negative = negative[known & ~wrong]
    at = np.searchsorted(queries, negative["query"])
    scored = bool(np.isfinite(positive["score"]).any() or np.isfinite(negative["score"]).any())
    rejected = _padded(len(queries), at, negative["document"], -1) if len(negative) else None
    nan = np.float32(np.nan)
    group = Grouped(
        queries=queries,
        positives=_padded(len(queries), row, positive["document"], -1),
        grades=_padded(len(queries), row, positive["grade"], np.float32(0)),
        scores=_padded(len(queries), row, positive["score"], nan) if scored else None,
        negatives=rejected,
        negative_scores=_padded(len(queries), at, negative["score"], nan)
        if scored and rejected is not None
        else None,
    )
    return group, left_out


def _pair_keys(links: NDArray[Any], documents: int) -> NDArray[np.int64]:
    keys: NDArray[np.int64] = links["query"] * documents + links["document"]
    return keys


def _distinct(links: NDArray[Any]) -> NDArray[Any]:
    """Ordered by query, then as they came; of equal links the one with the highest grade."""
    order = np.lexsort((-links["grade"], links["document"], links["query"]))
    ordered = links[order]
    begins = np.ones(len(ordered), np.bool_)
    begins[1:] = (ordered["query"][1:] != ordered["query"][:-1]) | (
        ordered["document"][1:] != ordered["document"][:-1]
    )
    kept = np.sort(order[begins])
    chosen = links[kept]
    return chosen[np.argsort(chosen["query"], kind="stable")]


def _padded(count: int, row: NDArray[np.int64], values: NDArray[Any], padding: Any) -> NDArray[Any]:
    """(count, most), filled from the left; `row` is ascending."""
    sizes = np.bincount(row, minlength=count)
    place = np.arange(len(row)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    out = np.full((count, int(sizes.max(initial=1))), padding, dtype=values.dtype)
    out[row, place] = values
    return out
