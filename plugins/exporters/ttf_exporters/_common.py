"""What several exporters share: availability, sidecars, blocks. Standard library and `ttf` only."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ttf import ArtifactDamaged, Availability, BadData, ExportFacts, ExportSource

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SIDECAR: Final = "index.json"
BLOCK: Final = 4096


def needs(library: str, extra: str) -> Availability:
    """`extra`: of ttf, which brings the library."""
    if importlib.util.find_spec(library) is not None:
        return Availability(ok=True)
    fix = f'pip install "twotower[{extra}]"' if extra else f"pip install {library}"
    return Availability(ok=False, reason=f"the {library} library is not installed", fix=fix)


def query_steps(facts: ExportFacts) -> list[str]:
    """How a vector of the query tower is compared with the exported documents."""
    steps = ["encode it with the query tower"]
    if facts.similarity == "cosine":
        steps.append("scale it to length 1")
    if facts.calibrated:
        steps.append("append the constant 1 as one more dimension")
    if facts.prepared:
        steps.append("multiply it by the matrix query.npy: q @ matrix")
    return steps


def sidecar(facts: ExportFacts, **more: Any) -> dict[str, Any]:
    return {
        "metric": "inner product",
        "similarity": facts.similarity,
        "dim": facts.dim,
        "ntotal": facts.rows,
        "vector_type": facts.vector_type,
        "ids_are": facts.ids_are,
        "calibrated": facts.calibrated,
        "query": query_steps(facts),
        "new_document": new_document(facts),
        "bank_fingerprint": facts.bank_fingerprint,
        "weights_sha256": facts.weights_sha256,
        "versions": dict(facts.versions),
        **more,
    }


def new_document(facts: ExportFacts) -> str:
    """What to do with a document that is not in the bank."""
    unit = ", scale it to length 1" if facts.similarity == "cosine" else ""
    if facts.prepared:
        return "export again with the new bank: its vectors were made smaller"
    if not facts.calibrated:
        return f"encode it with the document tower{unit}"
    return (
        f"encode it with the document tower{unit}, append {facts.mean_correction!r} (the mean "
        "correction of the bank) as one more dimension, until ttf calibrate --bank"
    )


def write_sidecar(folder: Path, values: Mapping[str, Any]) -> None:
    text = json.dumps(values, indent=2, ensure_ascii=False)
    folder.joinpath(SIDECAR).write_text(text + "\n", "utf-8")


def read_sidecar(folder: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(folder.joinpath(SIDECAR).read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise ArtifactDamaged(f"{folder / SIDECAR} cannot be read: {error}") from error
    return found


def write_ids(source: ExportSource, folder: Path) -> dict[str, Any] | None:
    """ids.npy, and what the sidecar says of it; None: documents are known by their rows."""
    import numpy as np

    ids = source.ids()
    if ids is None:
        return None
    np.save(folder / "ids.npy", ids)
    return {"file": "ids.npy", "type": "int64" if ids.dtype.kind in "iu" else "text"}


def blocks(source: ExportSource) -> Iterator[tuple[int, NDArray[np.float32]]]:
    """The documents in order; each block is valid until the next one."""
    from ttf import float32_blocks

    documents = source.documents()
    for start, rows in float32_blocks(documents, BLOCK):
        yield start, rows
        source.advance(start + len(rows), documents.shape[0])


def ids_as_text(source: ExportSource) -> NDArray[np.str_]:
    """An id for each row, as formats with textual ids need it."""
    import numpy as np

    ids = source.ids()
    found = np.arange(source.facts.rows) if ids is None else ids
    return found.astype(np.str_)


def require(condition: bool, what: str) -> None:
    """Raises BadData if a folder that is read back does not hold what it must."""
    if not condition:
        raise BadData(what)
