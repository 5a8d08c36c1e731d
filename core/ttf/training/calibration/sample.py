"""Which training pairs are compared with the documents, and which are held out to choose by."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ttf.config.evaluation_schema import CalibrateConfig
from ttf.contracts import VectorSource
from ttf.data.dataset import Split
from ttf.data.order import Permutation, key

ENOUGH_PAIRS: Final = 1000
MOST_HELD_OUT: Final = 2000
MOST_SAMPLE: Final = 1_000_000
_HELD_OUT_OF: Final = 5
# A larger sample finds nearer queries, and gains (docs/calibration.md); this many comparisons take
# about three seconds at 384 values, and every bank can have the smallest sample.
_COMPARISONS: Final = 2_500_000_000
_LEAST_SAMPLE: Final = 20_000
# Documents that held-out pairs are ranked against: with more, choosing would cost as much as
# correcting, and which `a` is best no longer changes.
MOST_RANKED: Final = 32_768


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """Rows of the training split, ascending; none is in both."""

    held_out: NDArray[np.int64]
    sampled: NDArray[np.int64]


def draw_pairs(num_pairs: int, sample: int, seed: int, fingerprint: str) -> Drawn:
    """The same for the same seed and data; the first fifth at most is held out."""
    held_out = min(MOST_HELD_OUT, num_pairs // _HELD_OUT_OF)
    count = min(sample, num_pairs - held_out)
    order = Permutation(num_pairs, key(seed, "calibration", fingerprint))
    rows = order(np.arange(held_out + count, dtype=np.int64))
    return Drawn(held_out=np.sort(rows[:held_out]), sampled=np.sort(rows[held_out:]))


def usual_sample(documents: int) -> tuple[int, str]:
    """How many training queries the documents are compared with at most, and why."""
    sample = max(_LEAST_SAMPLE, _COMPARISONS // max(1, documents))
    return min(sample, MOST_SAMPLE), (
        f"as many as make {_COMPARISONS:,} comparisons with {documents:,} documents, at least "
        f"{_LEAST_SAMPLE:,}"
    )


def most_queries(settings: CalibrateConfig, documents: int) -> int:
    """Also of a run that was trained without calibration, so that "auto" is not settled."""
    return settings.sample if isinstance(settings.sample, int) else usual_sample(documents)[0]


def draw_documents(
    num_documents: int, wanted: NDArray[np.int64], seed: int, fingerprint: str
) -> NDArray[np.int64]:
    """Rows of the bank, ascending: random ones, and the positives that are `wanted`."""
    if num_documents <= MOST_RANKED:
        return np.arange(num_documents, dtype=np.int64)
    order = Permutation(num_documents, key(seed, "calibration documents", fingerprint))
    drawn = order(np.arange(MOST_RANKED, dtype=np.int64))
    return np.unique(np.concatenate([drawn, wanted[wanted >= 0]]))


def fingerprint_of(bank: VectorSource, train: Split) -> str:
    """Of everything that the two draws, and what is computed from them, depend on."""
    queries = train.queries
    sources = [bank, queries.source, *([queries.context] if queries.context is not None else [])]
    digest = hashlib.sha256("|".join(source.fingerprint() for source in sources).encode())
    for held in (train.positives, train.keep, queries.lengths):
        if held is not None:
            digest.update(np.ascontiguousarray(held).data)
    return digest.hexdigest()[:16]


def is_enough(num_pairs: int) -> tuple[bool, str]:
    """Whether a run calibrates on its own accord, and why."""
    if num_pairs >= ENOUGH_PAIRS:
        return True, f"{num_pairs:,} training pairs are enough to see whether it helps"
    return False, (
        f"{num_pairs:,} training pairs are too few to see whether it helps, {ENOUGH_PAIRS:,} are "
        "needed (calibrate.enabled = true: with any number)"
    )
