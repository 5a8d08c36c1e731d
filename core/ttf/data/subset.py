"""Cuts a data set: fewer pairs, and optionally a bank of only the rows they need."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ttf.contracts import Store, StoreWriter, VectorSource
from ttf.data.named_arrays import KINDS
from ttf.data.order import Permutation, key
from ttf.data.text_arrays import put_text, text_of
from ttf.data.writing import array_bytes, block_rows, writing
from ttf.errors import BadData, ConfigError
from ttf.host.plugins import open_store

Rows = NDArray[np.int64]
# Of queries, beside those with a role in the training.
_MORE: Final = ("neg", "rel", "score_pos", "score_neg", "ids")
_REFER_TO_BANK: Final = ("pos_", "neg_")


@dataclass(frozen=True, kw_only=True)
class Subset:
    """What to keep; None keeps all."""

    train: int | None = None
    val: int | None = None
    seed: int | None = None  # Random rows by this seed; None: the first ones.
    distractors: int = 0  # Bank rows kept in addition to those of the pairs.
    context: str | None = None  # The file that `seq_*` refers to: these row numbers do not change.
    context_is_bank: bool = False  # `seq_*` refers to the bank: renumbered if the bank is cut.


def subset(
    pairs: str, out: str, keep: Subset, *, bank: str | None = None, bank_out: str | None = None
) -> dict[str, Any]:
    """Writes fewer pairs; with `bank` and `bank_out` a cut bank too, positives renumbered.

    No file says what `seq_*` refers to: if the bank is cut, `keep` must say it.
    """
    if (bank is None) != (bank_out is None):
        raise ConfigError("To cut the bank, give both options: --bank FILE and --bank-out FILE.")
    taken = {str(Path(p).resolve()) for p in (pairs, bank, keep.context) if p}
    places = [str(Path(p).resolve()) for p in (out, bank_out) if p]
    if taken & set(places) or len(set(places)) < len(places):
        raise ConfigError("An output must not be the same file as an input or as the other output.")
    store = open_store(pairs)
    try:
        _check_references(store, keep, cut=bank is not None)
        chosen = {split: _chosen_rows(store, split, keep) for split in ("train", "val")}
        if keep.context is not None:
            _check_context(store, chosen, keep.context)
        kept = None
        if bank is not None and bank_out is not None:
            kept = _cut_bank(store, chosen, bank, bank_out, keep)
        _write_pairs(store, out, chosen, kept, keep)
    finally:
        store.close()
    rows = {split: len(ids) for split, ids in chosen.items() if ids is not None}
    return {
        "pairs": out,
        "rows": rows,
        "bank": bank_out,
        "bank_rows": None if kept is None else len(kept),
    }


def _check_references(store: Store, keep: Subset, *, cut: bool) -> None:
    # ConfigError if `keep` does not say, or says twice, what `seq_*` refers to.
    if keep.context is not None and keep.context_is_bank:
        raise ConfigError(
            "The row numbers in seq_* belong either to the context or to the bank, not to both.",
            hint="Remove --context or --context-is-bank.",
        )
    sequences = [n for n in store.names() if n in ("seq_train", "seq_val")]
    if cut and sequences and keep.context is None and not keep.context_is_bank:
        raise ConfigError(
            f"{store.uri} has {' and '.join(sequences)}. After the bank is cut, its rows have new "
            "numbers, so ttf must know to which file these row numbers belong.",
            hint=(
                "If the row numbers belong to a context, add --context FILE: ttf keeps them. "
                "If they belong to the bank, add --context-is-bank: ttf changes them to the "
                "new numbers."
            ),
        )


def _check_context(store: Store, chosen: dict[str, Rows | None], context: str) -> None:
    # BadData if a chosen pair refers to a row that the context does not have.
    opened = open_store(context)
    try:
        total = opened.source("vectors").shape[0]
    finally:
        opened.close()
    for split, ids in chosen.items():
        name = f"seq_{split}"
        if ids is None or name not in store.names():
            continue
        source = store.source(name)
        step = block_rows(source.shape)
        for start in range(0, len(ids), step):
            largest = int(source.gather(ids[start : start + step]).max(initial=-1))
            if largest >= total:
                raise BadData(
                    f"{name} of {store.uri} contains the row number {largest}, but the context "
                    f"{context} has only {total} rows.",
                    hint="Use the context that belongs to these pairs.",
                )


def _chosen_rows(store: Store, split: str, keep: Subset) -> Rows | None:
    """Rows of a split that stay, in order; None if the file has no such split."""
    arrays = _arrays_of(store, split)
    if not arrays:
        return None
    counts = {name: _count(store, name) for name in arrays}
    if len(set(counts.values())) > 1:
        raise BadData(
            f"{store.uri}: the arrays of {split} have different numbers of rows: {counts}."
        )
    total = counts[arrays[0]]
    wanted = keep.train if split == "train" else keep.val
    if wanted is None or wanted >= total:
        return np.arange(total)
    if keep.seed is None:
        return np.arange(wanted)
    order = Permutation(total, key(keep.seed, "subset", split))
    return np.sort(order(np.arange(wanted)))


def _arrays_of(store: Store, split: str) -> list[str]:
    return [n for n in store.names() if n in {f"{kind}_{split}" for kind in (*KINDS, *_MORE)}]


def _count(store: Store, name: str) -> int:
    text = text_of(store, name)
    return store.source(name).shape[0] if text is None else len(text)


def _cut_bank(
    store: Store, chosen: dict[str, Rows | None], bank: str, bank_out: str, keep: Subset
) -> Rows:
    """Writes the bank rows of the pairs and some more; returns their old numbers."""
    named = [_named_rows(store, split, ids, keep) for split, ids in chosen.items()]
    used = np.unique(np.concatenate(named))
    bank_store = open_store(bank)
    try:
        total = bank_store.source("vectors").shape[0]
        if used.size and used[-1] >= total:
            raise BadData(
                f"{store.uri} contains the row number {used[-1]}, but the bank {bank} has only "
                f"{total} rows.",
                hint="Use the bank that belongs to these pairs.",
            )
        others = Permutation(total, key(keep.seed or 0, "distractors"))(np.arange(total))
        others = others[~np.isin(others, used)][: keep.distractors]
        kept = np.sort(np.concatenate([used, others]))
        ids = text_of(bank_store, "ids") if "ids" in bank_store.names() else None
        copied = ("vectors", "ids") if ids is None else ("vectors",)
        sources = [bank_store.source(n) for n in bank_store.names() if n in copied]
        with writing(bank_out, needed_bytes=_size(sources, len(kept))) as writer:
            for source in sources:
                _copy(writer, source, kept)
            if ids is not None and not put_text(writer, "ids", ids[kept]):
                raise _no_strings(bank_out, f"the ids of {bank}")
    finally:
        bank_store.close()
    return kept


def _named_rows(store: Store, split: str, ids: Rows | None, keep: Subset) -> Rows:
    """Bank rows that the chosen pairs of a split refer to."""
    if ids is None:
        return np.empty(0, np.int64)
    name = f"pos_{split}"
    if name not in store.names():
        raise BadData(
            f"{store.uri} has no {name}, so ttf does not know which rows of the bank the pairs "
            "need.",
            hint="Keep the whole bank: remove --bank and --bank-out.",
        )
    referring = [name, *(n for n in (f"neg_{split}",) if n in store.names())]
    if keep.context_is_bank and f"seq_{split}" in store.names():
        referring.append(f"seq_{split}")
    rows = [store.source(n).gather(ids).reshape(-1).astype(np.int64) for n in referring]
    found = np.unique(np.concatenate(rows))
    return found[found >= 0]


def _write_pairs(
    store: Store, out: str, chosen: dict[str, Rows | None], kept: Rows | None, keep: Subset
) -> None:
    named = [
        (name, ids)
        for split, ids in chosen.items()
        if ids is not None
        for name in _arrays_of(store, split)
    ]
    texts = {name: text[ids] for name, ids in named if (text := text_of(store, name)) is not None}
    parts = [(store.source(name), ids) for name, ids in named if name not in texts]
    if not parts:
        raise BadData(
            f"{store.uri} has no pairs: it contains no array X_train, seq_train, X_val or seq_val."
        )
    with writing(out, needed_bytes=sum(_size([s], len(ids)) for s, ids in parts)) as writer:
        for source, ids in parts:
            refers = source.name.startswith(_REFER_TO_BANK) or (
                source.name.startswith("seq_") and keep.context_is_bank
            )
            _copy(writer, source, ids, kept if refers else None)
        for name, text in texts.items():
            if not put_text(writer, name, text):
                raise _no_strings(out, name)


def _no_strings(out: str, name: str) -> BadData:
    return BadData(
        f"{out} cannot hold {name}, which are strings.",
        hint="Write a .npz file: its ids may be strings.",
    )


def _copy(writer: StoreWriter, source: VectorSource, ids: Rows, kept: Rows | None = None) -> None:
    # With `kept`, the values are bank rows and get their new numbers.
    array = writer.array(source.name, (len(ids), *source.shape[1:]), source.dtype)
    step = block_rows(source.shape)
    for start in range(0, len(ids), step):
        rows = source.gather(ids[start : start + step])
        if kept is not None:
            new = np.searchsorted(kept, rows)
            rows = np.where(rows >= 0, new, -1).astype(rows.dtype)
        array.append(rows)


def _size(sources: list[VectorSource], rows: int) -> int:
    return sum(array_bytes((rows, *s.shape[1:]), s.dtype) for s in sources)
