"""A flat FAISS index of inner products, written in blocks: the index may be larger than memory."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from ttf import (
    Availability,
    ExportAnswers,
    ExporterFactory,
    ExportFacts,
    ExportProbe,
    ExportSource,
    NoOptions,
    TtfError,
    hookimpl,
)
from ttf_exporters._common import (
    blocks,
    needs,
    query_steps,
    read_sidecar,
    require,
    sidecar,
    write_ids,
    write_sidecar,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

INDEX: Final = "index.faiss"
_COUNT_AT: Final = 8  # After four letters and the width: the number of vectors, 8 bytes.
_SIGN: Final = 128  # FAISS keeps signed bytes as unsigned ones.


class FaissExporter:
    def write(self, source: ExportSource, folder: Path) -> Mapping[str, Any]:
        import faiss
        import numpy as np

        facts = source.facts
        with (folder / INDEX).open("wb") as out:
            out.write(_header(facts, facts.rows))
            for _, rows in blocks(source):
                out.write(_codes(rows, facts).tobytes())
        kind = "IndexScalarQuantizer" if facts.vector_type == "int8" else "IndexFlatIP"
        ids = write_ids(source, folder)
        more = {"index": INDEX, "kind": kind, "ids": ids, "faiss": faiss.__version__}
        write_sidecar(folder, sidecar(facts, **more))
        size = (folder / INDEX).stat().st_size
        require(size > 0 and np.isfinite(size), f"{INDEX} is empty")
        return {"index": f"{INDEX} ({kind})", "query": ", ".join(query_steps(facts))}

    def read_back(self, folder: Path, probe: ExportProbe) -> ExportAnswers:
        import faiss
        import numpy as np

        about = read_sidecar(folder)
        flag = faiss.IO_FLAG_MMAP_IFC if about["kind"] == "IndexFlatIP" else 0
        index = faiss.read_index(str(folder / INDEX), flag)
        require(index.d == probe.facts.dim, f"{INDEX} has the width {index.d}")
        scores, rows = index.search(np.ascontiguousarray(probe.query_vectors), probe.k)
        stored = np.stack([index.reconstruct(int(row)) for row in probe.document_rows])
        return ExportAnswers(
            rows=rows.astype(np.int64),
            scores=scores,
            document_vectors=stored,
            count=int(index.ntotal),
            library=f"faiss {faiss.__version__}",
        )


def _header(facts: ExportFacts, count: int) -> bytes:
    """What FAISS itself writes before the vectors, with another count."""
    import faiss
    import numpy as np

    index: Any = faiss.IndexFlatIP(facts.dim)
    width = 4 * facts.dim
    if facts.vector_type == "int8":
        signed = faiss.ScalarQuantizer.QT_8bit_direct_signed
        index = faiss.IndexScalarQuantizer(facts.dim, signed, faiss.METRIC_INNER_PRODUCT)
        width = facts.dim
    one = np.arange(facts.dim, dtype=np.float32)[None] % 100
    index.add(one)
    data = faiss.serialize_index(index).tobytes()
    head, tail = bytearray(data[:-width]), data[-width:]
    held = (
        struct.unpack_from("<q", head, _COUNT_AT)[0],
        struct.unpack_from("<q", head, len(head) - 8)[0],
    )
    if held not in ((1, width), (1, facts.dim)) or tail != _codes(one, facts).tobytes():
        raise TtfError(
            f"faiss {faiss.__version__} writes flat indexes in a way that this version of ttf does not "
            "know.",
            hint='pip install "faiss-cpu<1.16"',
        )
    struct.pack_into("<q", head, _COUNT_AT, count)
    struct.pack_into("<q", head, len(head) - 8, held[1] * count)
    return bytes(head)


def _codes(rows: NDArray[np.float32], facts: ExportFacts) -> NDArray[Any]:
    import numpy as np

    if facts.vector_type == "int8":
        return (rows + _SIGN).astype(np.uint8)
    return np.ascontiguousarray(rows, "<f4")


class FaissFactory:
    """A flat FAISS index of the documents, with a sidecar"""

    name = "faiss"
    options_type = NoOptions
    exports: Literal["vectors"] = "vectors"

    def availability(self) -> Availability:
        return needs("faiss", "faiss")

    def create(self, options: Any) -> FaissExporter:
        return FaissExporter()


@hookimpl
def ttf_exporter(name: str) -> ExporterFactory | None:
    return FaissFactory() if name == "faiss" else None
