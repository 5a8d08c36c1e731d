"""Which pairs are for validation: those that the input names, else drawn by document."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ttf.data.val_split import chosen_pairs
from ttf.tools.encode.collect import SPLITS, Read
from ttf.tools.encode.links import Grouped, grouped


@dataclass(frozen=True, kw_only=True)
class SplitPairs:
    parts: dict[str, Grouped]
    text: str
    """How the validation pairs were chosen."""
    left_out: int
    """Negatives that are positives of the same query."""


def split_pairs(found: Read, share: float | Literal["auto"], seed: int) -> SplitPairs:
    links = found.links.read()
    query = found.queries.rows[links["query"]] if found.queries is not None else links["query"]
    links["query"] = query
    links["document"] = found.documents.rows[links["document"]]
    parts: dict[str, Grouped] = {}
    left_out = 0
    for number, name in enumerate(SPLITS):
        mine: Any = links[links["split"] == number]
        if (mine["negative"] == 0).any():
            parts[name], wrong = grouped(mine)
            left_out += wrong
    if "train" not in parts:  # the input names no other
        parts["train"] = parts.pop(next(iter(parts)))
    text = "as the input says"
    if "val" not in parts and share != 0 and len(parts["train"]) > 1:
        whole = parts["train"]
        first = whole.positives[:, 0]
        is_val, by_document = chosen_pairs(first, np.arange(len(whole)), share, seed)
        parts = {**parts, "train": whole.part(~is_val), "val": whole.part(is_val)}
        how = (
            "pairs of one document stay together"
            if by_document
            else "pairs of one document may be separated, because some documents have too many pairs"
        )
        text = f"drawn with seed {seed}: {how}"
    elif "val" not in parts:
        text = "no pairs for validation"
    return SplitPairs(
        parts={name: parts[name] for name in SPLITS if name in parts}, text=text, left_out=left_out
    )
