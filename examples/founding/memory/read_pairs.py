"""Reads the batches of an epoch from a pairs file: the array whole, as their loader did, or mapped.

    python examples/founding/memory/read_pairs.py --whole|--mapped PAIRS.npz

It prints a checksum, so that both ways are seen to read the same.
"""

from __future__ import annotations

import argparse
from contextlib import closing

import numpy as np
from numpy.typing import NDArray

import ttf

BATCH, BATCHES, EPOCHS = 512, 60, 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    way = parser.add_mutually_exclusive_group(required=True)
    way.add_argument("--whole", action="store_true")
    way.add_argument("--mapped", action="store_true")
    parser.add_argument("pairs")
    given = parser.parse_args()
    order = np.random.default_rng(0)
    total = 0.0
    if given.whole:
        everything = np.load(given.pairs)["X_train"]  # numpy maps no member of an NPZ
        for rows in batches(order, len(everything)):
            total += float(everything[rows].sum(dtype=np.float64))
    else:
        with closing(ttf.open_vectors(given.pairs)) as store:
            mapped = store.source("X_train")
            for rows in batches(order, mapped.shape[0]):
                total += float(mapped.gather(rows).sum(dtype=np.float64))
    print(f"checksum: {total:.6f}")


def batches(order: np.random.Generator, rows: int) -> list[NDArray[np.int64]]:
    return [order.integers(0, rows, BATCH) for _ in range(BATCHES * EPOCHS)]


if __name__ == "__main__":
    main()
