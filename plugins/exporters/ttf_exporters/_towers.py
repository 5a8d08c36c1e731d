"""Both towers as modules that return vectors as they are compared. Imports torch.

Shapes: B samples, D width.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ttf import ConfigError, ExportAnswers, ExportFacts, ExportProbe, ExportSource


class Compared(nn.Module):
    """A tower, then unit length (similarity "cosine"), then the dimension of the calibration."""

    def __init__(self, tower: nn.Module, facts: ExportFacts, last: float | None) -> None:
        super().__init__()
        self.tower = tower
        self.unit = facts.similarity == "cosine"
        self.last = last

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.tower(x).float()
        if self.unit:
            out = nn.functional.normalize(out, dim=-1)
        if self.last is not None:
            out = torch.cat([out, torch.full_like(out[:, :1], self.last)], dim=1)
        return out


def compared(source: ExportSource) -> tuple[Compared, Compared]:
    """The query tower and the document tower of a run."""
    facts = source.facts
    for side, tower in (("query", facts.query), ("document", facts.document)):
        if tower.shape.numbers_only or tower.name == "embedding":
            raise ConfigError(
                f"The {side} tower {tower.name!r} looks up rows of a trained table: without the table "
                "there is no encoder to export.",
                hint="Export the vectors instead: ttf export RUN_DIR faiss, npy, qdrant or others.",
            )
    query, document = source.towers()
    one, mean = (1.0, facts.mean_correction) if facts.calibrated else (None, None)
    return Compared(query, facts, one).eval(), Compared(document, facts, mean).eval()


MOST_LENGTHS: Final = 64


def programs(
    source: ExportSource, suffix: str, save: Callable[[Compared, Tensor, str], None]
) -> dict[str, Any]:
    """Calls `save(module, example, file name)` for the document tower, and for the query tower once
    for each length: a program reads batches of any size, and sequences of one length."""
    query, document = compared(source)
    facts = source.facts
    if len(facts.lengths) > MOST_LENGTHS:
        raise ConfigError(
            f"Queries have up to {facts.lengths[-1]} steps and different lengths. A program is needed "
            f"for each length, and at most {MOST_LENGTHS} are written.",
            hint="Use the tower itself: ttf.load(RUN_DIR).encode_queries(...)",
        )
    sequence, width = facts.query.shape.sequence, facts.query.shape.in_dim
    jobs = []
    for length in facts.lengths:
        shape = (3, length, width) if sequence else (3, width)
        jobs.append((query, torch.zeros(shape), query_file(facts, length, suffix)))
    jobs.append((document, torch.zeros(3, facts.document.shape.in_dim), f"document{suffix}"))
    for done, (module, example, file) in enumerate(jobs):
        try:
            save(module, example, file)
        except (RuntimeError, TypeError, NotImplementedError) as error:
            tower = facts.document.name if module is document else facts.query.name
            reason = str(error).strip().partition("\n")[0]
            raise ConfigError(
                f"The tower {tower!r} cannot be written as {file}: {type(error).__name__}: {reason}",
                hint="Use the tower itself: ttf.load(RUN_DIR).encode_queries(...)",
            ) from error
        source.advance(done + 1, len(jobs))
    return {"files": ", ".join(_short([file for _, _, file in jobs]))}


def _short(files: list[str]) -> list[str]:
    return files if len(files) <= 3 else [files[0], "...", *files[-2:]]


def query_file(facts: ExportFacts, length: int, suffix: str) -> str:
    """Several programs have their length in their names."""
    return f"query{suffix}" if len(facts.lengths) == 1 else f"query-{length}{suffix}"


def answered(
    folder: Path,
    probe: ExportProbe,
    suffix: str,
    opened: Callable[[Path], Callable[[NDArray[np.float32]], NDArray[np.float32]]],
    library: str,
) -> ExportAnswers:
    """The probe's queries through the programs of their lengths, and its documents."""
    facts, queries = probe.facts, probe.queries
    longest = queries.shape[1] if queries.ndim == 3 else 1
    lengths = np.full(len(queries), longest) if probe.lengths is None else probe.lengths
    vectors = np.zeros((len(queries), facts.dim), np.float32)
    for length in np.unique(lengths).tolist():
        here = np.flatnonzero(lengths == length)
        part = queries[here, :length] if queries.ndim == 3 else queries[here]
        run = opened(folder / query_file(facts, length, suffix))
        vectors[here] = run(np.ascontiguousarray(part))
    documents = opened(folder / f"document{suffix}")(probe.documents)
    return ExportAnswers(query_vectors=vectors, document_vectors=documents, library=library)


def about(facts: ExportFacts) -> dict[str, Any]:
    """For the sidecar: what goes in and what comes out."""
    steps = "(batch, length, dim)" if facts.query.shape.sequence else "(batch, dim)"
    return {
        "query_input": f"x: float32 {steps}, dim {facts.query.shape.in_dim}",
        "lengths": list(facts.lengths),
        "document_input": f"x: float32 (batch, dim), dim {facts.document.shape.in_dim}",
        "output": f"vector: float32 (batch, {facts.dim}), to be compared by inner product",
    }
