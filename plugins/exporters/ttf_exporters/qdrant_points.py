"""Bodies of requests for a Qdrant server: one that makes the collection, and the points in batches."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from ttf import (
    Availability,
    ConfigError,
    ExportAnswers,
    ExporterFactory,
    ExportProbe,
    ExportSource,
    hookimpl,
    option,
)
from ttf_exporters._answers import document_names
from ttf_exporters._common import blocks, needs, query_steps, sidecar, write_sidecar

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

COLLECTION: Final = "collection.json"
_NEGATIVE_ZERO: Final = re.compile(r"(?<=[\[,])-0(?=[,\]])")
_SCRIPT: Final = """\
#!/bin/sh
# Loads the points into a Qdrant server: sh load.sh http://localhost:6333 NAME
set -e
url="$1/collections/$2"
cd "$(dirname "$0")"
curl -sSf -X PUT "$url" -H "Content-Type: application/json" --data-binary @collection.json
for file in points-*.json; do
  curl -sSf -X PUT "$url/points?wait=true" -H "Content-Type: application/json" --data-binary "@$file"
done
"""


@dataclass(frozen=True, kw_only=True)
class Options:
    batch: int = option(1000, "points in a request", unit="points", ge=1, le=100_000)


class QdrantExporter:
    def __init__(self, options: Options) -> None:
        self._options = options

    def write(self, source: ExportSource, folder: Path) -> Mapping[str, Any]:
        facts = source.facts
        refuse_int8(facts.vector_type, "qdrant")
        names = document_names(source.ids(), facts.rows)
        body = {"vectors": {"size": facts.dim, "distance": "Dot"}}
        folder.joinpath(COLLECTION).write_text(json.dumps(body) + "\n", "utf-8")
        folder.joinpath("load.sh").write_text(_SCRIPT, "utf-8")
        files = 0
        for start, rows in blocks(source):
            for first in range(0, len(rows), self._options.batch):
                part = rows[first : first + self._options.batch]
                self._write(folder / f"points-{files:06d}.json", part, start + first, names)
                files += 1
        write_sidecar(folder, sidecar(facts, files=files))
        return {"files": f"{COLLECTION}, {files} files of points, load.sh",
                "query": ", ".join(query_steps(facts))}  # fmt: skip

    def _write(
        self, path: Path, rows: NDArray[np.float32], start: int, names: NDArray[np.str_]
    ) -> None:
        with path.open("w", encoding="utf-8", newline="\n") as out:
            for i, vector in enumerate(texts_of(rows)):
                payload = json.dumps({"id": str(names[start + i])}, ensure_ascii=False)
                begin = '{"points": [' if i == 0 else ","
                out.write(
                    f'{begin}\n{{"id": {start + i}, "vector": {vector}, "payload": {payload}}}'
                )
            out.write("\n]}\n")

    def read_back(self, folder: Path, probe: ExportProbe) -> ExportAnswers:
        from importlib.metadata import version

        import numpy as np
        from qdrant_client import QdrantClient, models

        client = QdrantClient(":memory:")
        body = json.loads((folder / COLLECTION).read_text("utf-8"))
        client.create_collection("c", vectors_config=models.VectorParams(**body["vectors"]))
        for path in sorted(folder.glob("points-*.json")):
            points = json.loads(path.read_text("utf-8"))["points"]
            client.upsert("c", [models.PointStruct(**point) for point in points])
        found = [
            client.query_points("c", query=query.tolist(), limit=probe.k).points
            for query in probe.query_vectors
        ]
        wanted = probe.document_rows.tolist()
        stored = {p.id: p.vector for p in client.retrieve("c", wanted, with_vectors=True)}
        return ExportAnswers(
            rows=np.array([[p.id for p in one] for one in found], np.int64),
            scores=np.array([[p.score for p in one] for one in found], np.float32),
            document_vectors=np.array([stored[row] for row in wanted], np.float32),
            count=client.count("c").count,
            library=f"qdrant-client {version('qdrant-client')} (local mode)",
        )


def refuse_int8(vector_type: str, name: str) -> None:
    if vector_type == "int8":
        raise ConfigError(
            f"--dtype int8: {name} has no vectors of signed bytes that are compared by inner product.",
            hint="Use --dims N, or --dtype int8 with faiss or npy.",
        )


def texts_of(rows: NDArray[np.float32]) -> list[str]:
    """Each row as JSON; nine digits give the same float32 again."""
    form = "[" + ",".join(["%.9g"] * rows.shape[1]) + "]"
    found = [form % tuple(row) for row in rows.tolist()]
    # -0 is a whole number of JSON, and loses its sign.
    return [_NEGATIVE_ZERO.sub("-0.0", text) if "-0" in text else text for text in found]


class QdrantFactory:
    """Points and a collection for a Qdrant server"""

    name = "qdrant"
    options_type = Options
    exports: Literal["vectors"] = "vectors"

    def availability(self) -> Availability:
        return needs("qdrant_client", "qdrant")

    def create(self, options: Options) -> QdrantExporter:
        return QdrantExporter(options)


@hookimpl
def ttf_exporter(name: str) -> ExporterFactory | None:
    return QdrantFactory() if name == "qdrant" else None
