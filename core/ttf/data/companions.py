"""Which files of a folder belong together: the pairs, the bank, and the context of `seq_*`.

Only for proposing a command. Whatever cannot be told from names and numbers stays open (None): a
command with the wrong file would train on nonsense without an error.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from ttf.contracts import Store
from ttf.data.inspect import sampled_blocks
from ttf.data.named_arrays import NamedArrays
from ttf.errors import BadData, TtfError
from ttf.host.plugins import is_local, open_store

_MOST_FILES: Final = 24
_CONTEXT: Final = "context"
_BANK: Final = "bank"


@dataclass(frozen=True, kw_only=True)
class Contents:
    """What a container says about its part in a data set."""

    uri: str
    vectors: int | None  # Rows of `vectors`.
    # By kind ("pos", "seq"): the largest row that such arrays name, in a sample.
    refers: Mapping[str, int]
    targets: bool  # Y_*, for all splits that are there.
    is_pairs: bool

    @property
    def needs_bank(self) -> bool:
        return "pos" in self.refers or not self.targets

    @property
    def needs_context(self) -> bool:
        return "seq" in self.refers


@dataclass(frozen=True, kw_only=True)
class Companions:
    """The files of a `ttf train` command; None: it is needed, and which one it is stays open."""

    pairs: str | None
    bank: str | None
    context: str | None
    needs_bank: bool
    needs_context: bool


def companions(uri: str, storage: str = "auto") -> Companions | None:
    """The set that a container belongs to; None if it is neither pairs nor vectors."""
    own = contents_of(uri, storage)
    if own is None or not (own.is_pairs or own.vectors is not None):
        return None
    others = list(_beside(uri))
    if own.is_pairs:
        return _set_of(own, others)
    pairs = [other for other in others if other.is_pairs]
    if len(pairs) == 1:
        found = _set_of(pairs[0], [own, *(other for other in others if other is not pairs[0])])
        if uri in (found.bank, found.context):
            return found
    is_context = _CONTEXT in Path(uri).stem.lower()
    return Companions(
        pairs=None,
        bank=None if is_context else uri,
        context=uri if is_context else None,
        needs_bank=True,
        needs_context=is_context,
    )


def _set_of(pairs: Contents, others: list[Contents]) -> Companions:
    banks = [o for o in others if _holds(o, pairs, "pos") and not _named(o, _CONTEXT)]
    bank = _only(banks, _BANK) if pairs.needs_bank else None
    contexts = [o for o in others if _holds(o, pairs, "seq") and o is not bank]
    contexts = [o for o in contexts if not _named(o, _BANK)]
    context = _only(contexts, _CONTEXT) if pairs.needs_context else None
    return Companions(
        pairs=pairs.uri,
        bank=bank.uri if bank is not None else None,
        context=context.uri if context is not None else None,
        needs_bank=pairs.needs_bank,
        needs_context=pairs.needs_context,
    )


def _holds(vectors: Contents, pairs: Contents, kind: str) -> bool:
    """True if the vectors have every row that the pairs name."""
    return vectors.vectors is not None and vectors.vectors > pairs.refers.get(kind, -1)


def _named(contents: Contents, word: str) -> bool:
    return word in Path(contents.uri).stem.lower()


def _only(candidates: list[Contents], word: str) -> Contents | None:
    """The one candidate, or the one of several whose name has the word."""
    named = [c for c in candidates if _named(c, word)]
    chosen = named or candidates
    return chosen[0] if len(chosen) == 1 else None


def _beside(uri: str) -> Iterator[Contents]:
    path = Path(uri)
    if not is_local(uri) or not path.parent.is_dir():
        return
    # A folder of .npy files has no ending; a single .npy file beside it is a bank.
    endings = (path.suffix, ".npy") if path.is_dir() else (path.suffix,)
    alike = sorted(p for p in path.parent.iterdir() if p.suffix in endings and p != path)
    for other in alike[:_MOST_FILES]:
        found = contents_of(str(other))
        if found is not None:
            yield found


def contents_of(uri: str, storage: str = "auto") -> Contents | None:
    """None if the container cannot be opened."""
    try:
        with contextlib.closing(open_store(uri, storage)) as store:
            return _contents(store)
    except TtfError:
        return None


def _contents(store: Store) -> Contents:
    arrays = NamedArrays(store, {})
    splits = [split for split in ("train", "val") if arrays.has_split(split)]
    vectors = None
    with contextlib.suppress(BadData):
        vectors = arrays["vectors"].shape[0] if "vectors" in arrays else None
    refers: dict[str, int] = {}
    for kind in ("pos", "seq"):
        named = [f"{kind}_{split}" for split in splits if f"{kind}_{split}" in arrays]
        with contextlib.suppress(BadData):
            largest = [_largest(arrays, name) for name in named]
            refers |= {kind: max(largest)} if largest else {}
    return Contents(
        uri=store.uri,
        vectors=vectors,
        refers=refers,
        targets=bool(splits) and all(f"Y_{split}" in arrays for split in splits),
        is_pairs=any(name in arrays for name in ("X_train", "seq_train")),
    )


def _largest(arrays: NamedArrays, name: str) -> int:
    source = arrays[name]
    if source.dtype not in ("int32", "int64"):  # no row numbers: training refuses the file
        return -1
    largest = (int(np.max(rows, initial=-1)) for _, rows in sampled_blocks(source))
    return max(largest, default=-1)  # an array may have no rows
