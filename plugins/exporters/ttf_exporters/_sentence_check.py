"""Loads the folder with sentence-transformers, and the encoder alone beside it."""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ttf import BadData, ExportAnswers, ExportProbe

_WORDS: Final = 6
_NEAR: Final = 0.99
_BATCH: Final = 32
_DOCUMENTS: Final = 200


def read_back(folder: Path, probe: ExportProbe) -> ExportAnswers:
    import sentence_transformers

    encoder, exported = _opened(probe.facts.encoder), _opened(str(folder))
    made_up = _made_up(folder, len(probe.queries))
    texts = {
        "query": list(probe.query_texts or made_up),
        "document": list(probe.document_texts or made_up)[:_DOCUMENTS],
    }
    # With the prompts of the folder: those of the encoder may be others, see `ExportFacts.prompts`.
    inputs = {
        side: _encoded(partial(encoder.encode, prompt=exported.prompts[side]), some)
        for side, some in texts.items()
    }
    _require_same("queries", probe.query_texts, probe.queries, inputs["query"])
    _require_same("documents", probe.document_texts, probe.documents, inputs["document"])
    return ExportAnswers(
        query_inputs=inputs["query"],
        document_inputs=inputs["document"],
        query_vectors=_encoded(exported.encode_query, texts["query"]),
        document_vectors=_encoded(exported.encode_document, texts["document"]),
        library=f"sentence-transformers {sentence_transformers.__version__}",
    )


def _opened(folder: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # names of modules that 5.1 knows
        from sentence_transformers import SentenceTransformer

        return SentenceTransformer(folder, device="cpu", local_files_only=True)


def _encoded(encode: Any, texts: Sequence[str]) -> NDArray[np.float32]:
    found = encode(list(texts), batch_size=_BATCH, convert_to_numpy=True, show_progress_bar=False)
    return np.asarray(found, np.float32)


def _made_up(folder: Path, count: int) -> list[str]:
    """Words of the tokenizer's vocabulary, for a check without texts."""
    try:
        found = json.loads((folder / "encoder" / "tokenizer.json").read_text("utf-8"))
        vocabulary = found["model"]["vocab"]
        tokens = vocabulary if isinstance(vocabulary, dict) else [t[0] for t in vocabulary]
        words = [t for t in tokens if isinstance(t, str) and t.isalpha() and len(t) > 2]
    except (OSError, ValueError, LookupError, TypeError):
        words = []
    words = words or ["one", "two", "three", "water", "house", "tree", "green"]
    chosen = np.random.default_rng(0).integers(0, len(words), (count, _WORDS))
    return [" ".join(words[i] for i in row) for row in chosen]


def _require_same(
    what: str, texts: Sequence[str] | None, stored: NDArray[np.float32], made: NDArray[np.float32]
) -> None:
    """The encoder must be the one that made the vectors of the run."""
    if texts is None:
        return
    near = np.einsum("ij,ij->i", _unit(stored[: len(made)]), _unit(made))
    wrong = np.flatnonzero(near < _NEAR)
    if len(wrong) > len(near) // 100:
        raise BadData(
            f"The encoder does not make the vectors of the {what}: {len(wrong):,} of {len(near):,} texts "
            f"get another vector (the first is text {wrong[0]} of the check, cosine "
            f"{near[wrong[0]]:.3f}).",
            hint="Give the encoder that made them, with the same prompts, and texts in the order of "
            "the vectors.",
        )


def _unit(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    unit: NDArray[np.float32] = rows / np.maximum(
        np.linalg.norm(rows, axis=1, keepdims=True), 1e-12
    )
    return unit
