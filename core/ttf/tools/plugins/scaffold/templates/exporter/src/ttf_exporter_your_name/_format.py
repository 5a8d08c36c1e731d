"""The format: raw float32 rows and their ids. YOUR LIBRARY goes here.

Shapes: Q queries, N documents, D width, K results.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from ttf import ExportAnswers, ExportProbe, ExportSource, float32_blocks

from .plugin import Options

ROWS: Final = "documents.f32"
IDS: Final = "ids.npy"


class YourNameExporter:
    """`write` and `read_back` run in processes of their own, on different objects."""

    def __init__(self, options: Options) -> None:
        self._options = options

    def write(self, source: ExportSource, folder: Path) -> Mapping[str, Any]:
        documents = source.documents()
        with (folder / ROWS).open("wb") as out:
            # The bank may be larger than memory: a block is overwritten by the next one.
            for first, block_ND in float32_blocks(documents, self._options.block_rows):
                out.write(block_ND.tobytes())
                source.advance(first + len(block_ND), documents.shape[0])
        ids = source.ids()
        if ids is not None:
            np.save(folder / IDS, ids)
        return {"file": ROWS}  # In the output of the command, and in export.json.

    def read_back(self, folder: Path, probe: ExportProbe) -> ExportAnswers:
        # YOUR LIBRARY: load the folder as a reader would, without what `write` knew, and answer the
        # queries. ttf compares with its own search, and removes the export if they differ.
        rows_ND = np.memmap(folder / ROWS, np.float32, "r").reshape(-1, probe.facts.dim)
        rows_QK, scores_QK = _best(rows_ND, probe.query_vectors, probe.k)
        return ExportAnswers(
            rows=rows_QK,
            scores=scores_QK,
            document_vectors=rows_ND[probe.document_rows],
            count=len(rows_ND),
            library=f"numpy {np.__version__}",
        )


def _best(
    rows_ND: NDArray[np.float32], queries_QD: NDArray[np.float32], k: int
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    scores_QN = queries_QD @ rows_ND.T
    best_QK = np.argsort(-scores_QN, axis=1, kind="stable")[:, :k].astype(np.int64)
    return best_QK, np.take_along_axis(scores_QN, best_QK, axis=1)
