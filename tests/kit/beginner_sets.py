"""Data sets as people first bring them: what NumPy, pandas and scikit-learn give, saved as it is.

Each function writes files to a folder and returns the words of the first `ttf train` command.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

TEXTS, WORDS, WIDTH = 660, 120, 16


def tfidf(folder: Path) -> list[str]:
    """Short texts by TF-IDF and a truncated SVD that was not centred: all vectors are alike, so that
    the filter trusts hardly any mined candidate as a negative."""
    documents, queries = _texts_and_queries()
    rows = np.arange(TEXTS)
    train, val = rows[rows % 6 > 0], rows[rows % 6 == 0]
    np.savez(
        folder / "pairs.npz",
        X_train=queries[train].astype(np.float32),
        X_val=queries[val].astype(np.float32),
        pos_train=train,
        pos_val=val,
    )
    np.savez(folder / "bank.npz", vectors=documents.astype(np.float32))
    return ["--pairs", "pairs.npz", "--bank", "bank.npz"]


def _texts_and_queries() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    rng = np.random.default_rng(5)
    frequency = 1 / np.arange(1, WORDS + 1)
    counts = rng.multinomial(12, frequency / frequency.sum(), size=TEXTS)
    some = np.minimum(counts, rng.binomial(counts, 0.7))
    counts[:, 0] = some[:, 0] = 40  # the one word that stands in every text, many times
    weight = np.log((1 + TEXTS) / (1 + (counts > 0).sum(axis=0))) + 1
    basis = np.linalg.svd(counts * weight, full_matrices=False)[2][:WIDTH]
    return (counts * weight) @ basis.T, (some * weight) @ basis.T


def without_validation(folder: Path) -> list[str]:
    """Training pairs only, several of them for each document; everything in one file."""
    documents, queries = _texts_and_queries()
    rng = np.random.default_rng(6)
    rows = np.sort(rng.integers(0, TEXTS // 3, TEXTS))
    np.savez(
        folder / "pairs.npz",
        X_train=(queries[rows] + 0.1 * rng.standard_normal((TEXTS, WIDTH))).astype(np.float32),
        Y_train=documents[rows].astype(np.float32),
    )
    return ["--pairs", "pairs.npz"]


def sequences(folder: Path) -> list[str]:
    """Windows over a text, as rows of a context: the next passage is to be found."""
    rng = np.random.default_rng(7)
    passages = rng.standard_normal((TEXTS, WIDTH))
    for row in range(1, TEXTS):  # each is like the one before it
        passages[row] += 0.9 * passages[row - 1]
    rows = np.arange(4, TEXTS)
    seq = rows[:, None] - np.arange(4, 0, -1)
    val = rows % 6 == 0
    place = rng.permutation(TEXTS)  # the same passages are the documents, in another order
    np.savez(
        folder / "windows.npz",
        seq_train=seq[~val],
        seq_val=seq[val],
        pos_train=place[rows[~val]],
        pos_val=place[rows[val]],
    )
    np.savez(folder / "context.npz", vectors=passages.astype(np.float32))
    np.savez(folder / "bank.npz", vectors=passages[np.argsort(place)].astype(np.float32))
    return ["--pairs", "windows.npz", "--bank", "bank.npz"]


def frames(folder: Path) -> list[str]:
    """Data frames of pandas: float64, in Fortran order, the targets as rows; no validation."""
    documents, queries = _texts_and_queries()
    np.savez(
        folder / "pairs.npz",
        X_train=np.asfortranarray(queries),
        Y_train=np.asfortranarray(documents),
    )
    np.savez(folder / "bank.npz", vectors=np.asfortranarray(documents))
    return ["--pairs", "pairs.npz", "--bank", "bank.npz"]


def string_ids(folder: Path) -> list[str]:
    """Documents with names."""
    words = tfidf(folder)
    with np.load(folder / "bank.npz") as bank:
        names = np.array([f"text-{row:04}" for row in range(TEXTS)])
        np.savez(folder / "bank.npz", vectors=bank["vectors"], ids=names)
    return words
