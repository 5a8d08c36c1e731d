"""Banks to search and queries to search them with: real ones, and made ones that are as hard.

What makes a bank hard for a graph or for inverted lists is not its width but its local intrinsic
dimension; the made bank is made so that it has that of the real one, and both are printed.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

_BLOCK = 65536
_LATENT = 128
_CENTRES = 2000
_DECAY = 0.3
"""The latent's axes shrink as i ** -decay: chosen for the intrinsic dimension of real text."""
_SPREAD = 1.0
"""Of a cluster, relative to the distance between centres."""
_NOISE = 0.02


@dataclass(frozen=True, kw_only=True)
class Bank:
    name: str
    how: str
    """Where it comes from."""
    uri: str
    rows: int
    dim: int
    queries: NDArray[np.float32]


def real(folder: Path, num_queries: int) -> Bank:
    """A whole bank of real text; the queries are its pairs, over again where there are too few."""
    with np.load(folder / "bank.npz") as stored:
        vectors = stored["vectors"]
    with np.load(folder / "pairs.npz") as stored:
        queries = np.concatenate([stored["X_train"], stored["X_val"]]).astype(np.float32)
    _unit(queries)
    return Bank(
        name=f"{folder.name} {vectors.shape[0] // 1000}k x {vectors.shape[1]}",
        how=f"real: every document of {folder.name}, queries are its pairs",
        uri=str(folder / "bank.npz"),
        rows=vectors.shape[0],
        dim=vectors.shape[1],
        queries=np.resize(queries, (num_queries, queries.shape[1])),
    )


def made(folder: Path, rows: int, dim: int, num_queries: int, seed: int = 0) -> Bank:
    """Clusters on a curved sheet of few dimensions; queries are other points of the same sheet."""
    vectors = np.empty((rows, dim), np.float32)
    sheet = _Sheet(dim, seed)
    for number, start in enumerate(range(0, rows, _BLOCK)):
        part = vectors[start : start + _BLOCK]
        part[:] = sheet.points(len(part), (seed, 1, number))
    path = folder / f"made-{rows}-{dim}.npz"
    np.savez(path, vectors=vectors)
    del vectors
    queries = np.empty((num_queries, dim), np.float32)
    for number, start in enumerate(range(0, num_queries, _BLOCK)):
        part = queries[start : start + _BLOCK]
        part[:] = sheet.points(len(part), (seed, 2, number))
    return Bank(
        name=f"made {rows // 1000}k x {dim}",
        how=f"made: {_CENTRES:,} clusters, {_LATENT} latent axes shrinking as i^-{_DECAY}, "
        f"noise {_NOISE} a coordinate, unit length; queries from the same law",
        uri=str(path),
        rows=rows,
        dim=dim,
        queries=queries,
    )


class _Sheet:
    def __init__(self, dim: int, seed: int) -> None:
        rng = np.random.default_rng((seed, 0))
        scale = np.arange(1, _LATENT + 1, dtype=np.float32) ** np.float32(-_DECAY)
        turn, _ = np.linalg.qr(rng.standard_normal((dim, _LATENT)))
        self._axes = np.ascontiguousarray((turn * scale).T.astype(np.float32))
        self._centres = rng.standard_normal((_CENTRES, _LATENT), np.float32)

    def points(self, count: int, words: tuple[int, ...]) -> NDArray[np.float32]:
        rng = np.random.default_rng(words)
        latent = self._centres[rng.integers(0, _CENTRES, count)]
        latent += np.float32(_SPREAD) * rng.standard_normal(latent.shape, np.float32)
        out: NDArray[np.float32] = latent @ self._axes
        out += np.float32(_NOISE) * rng.standard_normal(out.shape, np.float32)
        _unit(out)
        return out


def intrinsic_dimension(scores: NDArray[np.float32]) -> float:
    """Levina and Bickel's estimate, averaged as MacKay and Ghahramani do: from the scores of the
    best rows of some queries, best first, all vectors of unit length.

    >>> round(intrinsic_dimension(1 - np.linspace(0.01, 1, 100)[None] ** 2 / 2))  # along a line
    1
    """
    distance = np.sqrt(np.maximum(2 - 2 * scores.astype(np.float64), 1e-12))
    return float(1 / np.log(distance[:, -1:] / distance[:, :-1]).mean())


def _unit(vectors: NDArray[np.float32]) -> None:
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
