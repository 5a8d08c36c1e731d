"""Whether `ttf train` would take a file, as far as the file alone can tell.

The checks are those of `ttf.data.open_dataset`, split by split, so that all problems come at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from ttf.data import positives
from ttf.data.named_arrays import NamedArrays, need_floats, queries_of
from ttf.errors import ArrayMissing, BadData

if TYPE_CHECKING:
    from ttf.contracts import Store

_SPLITS: Final = ("train", "val")
_ANY_BANK: Final = 1 << 62
"""Rows of a bank that nobody named: any position from 0 on may be one."""


def looks_like_pairs(names: Sequence[str]) -> bool:
    """Whether there is any array of a training or validation split."""
    known = {f"{kind}_{split}" for kind in ("X", "seq", "pos", "Y") for split in _SPLITS}
    return not known.isdisjoint(names)


def unfit(store: Store) -> Iterator[BadData]:
    """Every reason for which `ttf train` would refuse this file, as pairs or as a bank."""
    arrays = NamedArrays(store, {})
    if "vectors" in arrays:  # queries of `ttf search` may have three dimensions
        yield from _raised(lambda: need_floats(arrays["vectors"], (2, 3), "(rows, dim)"))
    if looks_like_pairs(store.names()):
        for split in _SPLITS:
            yield from _split(arrays, split)


def _split(arrays: NamedArrays, split: str) -> Iterator[BadData]:
    def queries() -> None:
        # What seq_* refers to is another file: its own numbers stand in and are never followed.
        queries_of(arrays, split, lambda: arrays[f"seq_{split}"])

    yield from _raised(queries)
    named, valued = f"pos_{split}", f"Y_{split}"
    if valued in arrays:
        yield from _raised(lambda: need_floats(arrays[valued], (2,), "(N, D)"))
    if named in arrays:
        yield from _raised(lambda: _known(arrays, split))
    elif valued not in arrays:
        yield ArrayMissing(
            f"{arrays.uri} has neither {named} nor {valued}: the positives of the {split} pairs "
            "are unknown.",
            hint=f"Add {named} (rows of the bank).",
        )


def _known(arrays: NamedArrays, split: str) -> None:
    """Raises BadData where no pair has a positive, and none can be found by value."""
    found = positives.from_array(arrays[f"pos_{split}"], _ANY_BANK)
    if not len(found.usable) and f"Y_{split}" not in arrays:
        raise BadData(
            f"None of the {len(found.rows):,} {split} pairs of {arrays.uri} has a positive: all "
            f"of pos_{split} is -1.",
            hint=f"Give pos_{split} rows of the bank, or add Y_{split}.",
        )


def _raised(check: Callable[[], None]) -> Iterator[BadData]:
    try:
        check()
    except BadData as error:
        yield error
