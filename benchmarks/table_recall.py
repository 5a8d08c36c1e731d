"""A trained row for each document beside the frozen documents, with a split by pair: validation pairs are
one pair of each document that has several, so that every document of a validation pair is trained on too.

    python benchmarks/table_recall.py PAIRS.npz BANK.npz OUT_DIR [epochs]
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import ttf

QUERIES = 4000


def split_by_pair(pairs: Path, to: Path) -> None:
    found = np.load(pairs)
    x = np.concatenate([found["X_train"], found["X_val"]])
    pos = np.concatenate([found["pos_train"], found["pos_val"]])
    several = np.bincount(pos)[pos] > 1
    _, last = np.unique(pos[::-1], return_index=True)
    of_each = len(pos) - 1 - last
    val = of_each[several[of_each]][:QUERIES]
    train = np.setdiff1d(np.arange(len(pos)), val)
    np.savez(to, X_train=x[train], pos_train=pos[train], X_val=x[val], pos_val=pos[val])


def main() -> None:
    pairs, bank, out = map(Path, sys.argv[1:4])
    epochs = int(sys.argv[4]) if len(sys.argv) > 4 else 6
    out.mkdir(parents=True)
    split_by_pair(pairs, out / "pairs.npz")
    for tower in ("identity", "embedding"):
        run = ttf.train(
            pairs=out / "pairs.npz",
            bank=bank,
            tower="linear",
            doc_tower=tower,
            epochs=epochs,
            batch_size=512,
            out=out / tower,
            sets={"calibrate.enabled": False, "miner.negatives": 0, "evaluate.patience": 0},
        )
        said = ", ".join(f"{name} {value:.4f}" for name, value in run.metrics.items())
        print(f"{tower}: {said}", flush=True)


if __name__ == "__main__":
    main()
