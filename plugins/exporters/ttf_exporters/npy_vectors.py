"""Plain NumPy files: the documents as they are compared, and their ids."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ttf import (
    Availability,
    ExportAnswers,
    ExporterFactory,
    ExportProbe,
    ExportSource,
    NoOptions,
    hookimpl,
)
from ttf_exporters._common import blocks, query_steps, require, sidecar, write_ids, write_sidecar

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

VECTORS = "vectors.npy"


class NpyExporter:
    def write(self, source: ExportSource, folder: Path) -> Mapping[str, Any]:
        import numpy as np

        facts = source.facts
        held = np.dtype(facts.vector_type)
        out = np.lib.format.open_memmap(
            folder / VECTORS, mode="w+", dtype=held, shape=(facts.rows, facts.dim)
        )
        for start, rows in blocks(source):
            out[start : start + len(rows)] = rows
        out.flush()
        write_sidecar(folder, sidecar(facts, ids=write_ids(source, folder), file=VECTORS))
        return {"files": VECTORS, "query": ", ".join(query_steps(facts))}

    def read_back(self, folder: Path, probe: ExportProbe) -> ExportAnswers:
        import numpy as np

        vectors = np.load(folder / VECTORS, mmap_mode="r", allow_pickle=False)
        require(vectors.ndim == 2, f"{VECTORS} has the shape {vectors.shape}")
        rows, scores = brute_force(vectors, probe.query_vectors, probe.k)
        return ExportAnswers(
            rows=rows,
            scores=scores,
            document_vectors=vectors[probe.document_rows].astype(np.float32),
            count=len(vectors),
            library=f"numpy {np.__version__}",
        )


def brute_force(
    vectors: NDArray[Any], queries: NDArray[np.float32], k: int
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """The k best rows by inner product, as a reader of the file would find them."""
    import numpy as np

    best: NDArray[np.int64] = np.empty((len(queries), 0), np.int64)
    scores: NDArray[np.float32] = np.empty((len(queries), 0), np.float32)
    for start in range(0, len(vectors), 65536):
        found = queries @ np.asarray(vectors[start : start + 65536], np.float32).T
        rows = np.broadcast_to(np.arange(start, start + found.shape[1]), found.shape)
        scores, best = np.hstack([scores, found]), np.hstack([best, rows])
        kept = np.argsort(-scores, axis=1, kind="stable")[:, :k]
        scores = np.take_along_axis(scores, kept, axis=1)
        best = np.take_along_axis(best, kept, axis=1)
    return best, scores


class NpyFactory:
    """Plain .npy files of vectors and ids"""

    name = "npy"
    options_type = NoOptions
    exports: Literal["vectors"] = "vectors"

    def availability(self) -> Availability:
        return Availability(ok=True)

    def create(self, options: Any) -> NpyExporter:
        return NpyExporter()


@hookimpl
def ttf_exporter(name: str) -> ExporterFactory | None:
    return NpyFactory() if name == "npy" else None
