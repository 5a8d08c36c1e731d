"""A LanceDB database with one table: row, id, vector."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Literal

from ttf import (
    Availability,
    ExportAnswers,
    ExporterFactory,
    ExportProbe,
    ExportSource,
    NoOptions,
    hookimpl,
)
from ttf_exporters._answers import document_names
from ttf_exporters._common import blocks, needs, query_steps, sidecar, write_sidecar
from ttf_exporters.qdrant_points import refuse_int8

FOLDER: Final = "lance"
TABLE: Final = "documents"


class LanceExporter:
    def write(self, source: ExportSource, folder: Path) -> Mapping[str, Any]:
        import lancedb
        import numpy as np
        import pyarrow as pa

        facts = source.facts
        refuse_int8(facts.vector_type, "lance")
        names = document_names(source.ids(), facts.rows)
        vector = pa.list_(pa.float32(), facts.dim)
        schema = pa.schema([("row", pa.int64()), ("id", pa.string()), ("vector", vector)])

        def batches() -> Iterator[pa.RecordBatch]:
            for start, rows in blocks(source):
                flat = pa.array(np.array(rows).reshape(-1))  # a block is written over
                span = np.arange(start, start + len(rows))
                columns = [
                    pa.array(span),
                    pa.array(names[span].tolist(), pa.string()),
                    pa.FixedSizeListArray.from_arrays(flat, facts.dim),
                ]
                yield pa.RecordBatch.from_arrays(columns, schema=schema)

        database = lancedb.connect(str(folder / FOLDER))
        reader = pa.RecordBatchReader.from_batches(schema, batches())
        database.create_table(TABLE, reader)
        write_sidecar(folder, sidecar(facts, database=FOLDER, table=TABLE))
        return {"database": FOLDER, "table": TABLE, "query": ", ".join(query_steps(facts))}

    def read_back(self, folder: Path, probe: ExportProbe) -> ExportAnswers:
        import lancedb
        import numpy as np

        table = lancedb.connect(str(folder / FOLDER)).open_table(TABLE)
        rows, scores = [], []
        for query in probe.query_vectors:
            asked = table.search(query).distance_type("dot").select(["row", "_distance"])
            found = asked.limit(probe.k).to_arrow()
            rows.append(found["row"].to_pylist())
            scores.append([1.0 - d for d in found["_distance"].to_pylist()])
        wanted = probe.document_rows
        stored = table.take_offsets(wanted.tolist()).to_arrow() if len(wanted) else None
        vectors = None
        if stored is not None:
            order = np.argsort(np.array(stored["row"].to_pylist()))
            vectors = np.array(stored["vector"].to_pylist(), np.float32)[order]
        return ExportAnswers(
            rows=np.array(rows, np.int64),
            scores=np.array(scores, np.float32),
            document_vectors=vectors,
            count=table.count_rows(),
            library=f"lancedb {lancedb.__version__}",
        )


class LanceFactory:
    """A LanceDB database with the documents"""

    name = "lance"
    options_type = NoOptions
    exports: Literal["vectors"] = "vectors"

    def availability(self) -> Availability:
        return needs("lancedb", "lance")

    def create(self, options: Any) -> LanceExporter:
        return LanceExporter()


@hookimpl
def ttf_exporter(name: str) -> ExporterFactory | None:
    return LanceFactory() if name == "lance" else None
