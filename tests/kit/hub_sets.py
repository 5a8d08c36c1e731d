"""Small sets of pairs, with hubs and without."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

DIM, DOCUMENTS, PAIRS, VAL, HUBS = 24, 2500, 1500, 200, 60


def unit(rows: NDArray[Any]) -> NDArray[np.float32]:
    found: NDArray[np.float32] = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return found.astype(np.float32)


def write_hub_set(folder: Path, *, hubs: bool) -> dict[str, str]:
    """All queries lean to one side; with `hubs` some documents lie there, and are no answers."""
    rng = np.random.default_rng(5)
    bank = rng.standard_normal((DOCUMENTS, DIM))
    side = np.zeros(DIM)
    side[0] = 6.0 if hubs else 0.0
    bank[-HUBS:] += side
    answers = rng.permutation(DOCUMENTS - HUBS)[: PAIRS + VAL]
    noise = rng.standard_normal((PAIRS + VAL, DIM))
    queries = unit(bank[answers] + 0.6 * noise + side / 2)
    folder.mkdir(parents=True, exist_ok=True)
    files = {"pairs": str(folder / "pairs.npz"), "bank": str(folder / "bank.npz")}
    np.savez(
        files["pairs"],
        X_train=queries[:PAIRS],
        pos_train=answers[:PAIRS],
        X_val=queries[PAIRS:],
        pos_val=answers[PAIRS:],
    )
    np.savez(files["bank"], vectors=unit(bank))
    return files
