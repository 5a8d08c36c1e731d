"""Which documents belong to the queries of a split, as the file of pairs says it."""

from __future__ import annotations

from collections.abc import Callable

from ttf.contracts import VectorSource
from ttf.data import positives as pos
from ttf.data.dataset import need_floats
from ttf.data.named_arrays import NamedArrays
from ttf.errors import ArrayMissing, BadData


def known_positives(
    pairs: NamedArrays,
    split: str,
    bank: VectorSource,
    count: int,
    *,
    by_value: bool,
    say: Callable[[str], None],
) -> pos.Positives:
    """The documents of each pair, by `pos_*` or by the value of `Y_*`. Raises BadData or ArrayMissing.

    `by_value`: there is no bank but the rows of Y, so that `pos_*` means nothing.
    """
    named, valued = f"pos_{split}", f"Y_{split}"
    found = None
    if named in pairs and not by_value:
        found = pos.named_rows(pairs, named, bank.shape[0])
        same_count(pairs, named, len(found.rows), split, count)
        if valued in pairs and not found.unmatched:
            say(f"{valued} is not used and not checked: {named} names the positives of all pairs.")
    if valued in pairs and (found is None or found.unmatched):
        target = pairs[valued]
        need_floats(target, pairs.stored_type(valued), (2,), "(N, D)")
        if target.shape[1] != bank.shape[1]:
            raise BadData(
                f"{valued} in {pairs.uri} has vectors of width {target.shape[1]}, but the bank "
                f"{bank.uri} has vectors of width {bank.shape[1]}.",
                hint=f"The rows of {valued} must be rows of the bank.",
            )
        same_count(pairs, valued, target.shape[0], split, count)
        matched = pos.match(target, bank)
        if found is None:
            return matched
        missing = (found.rows < 0).all(axis=1)
        found.rows[missing, 0] = matched.rows[missing, 0]
    if found is None and by_value:
        raise ArrayMissing(
            f"{pairs.uri} has no {pairs.said(valued)}, and no bank was given, so the positives of "
            f"the {split} pairs are unknown.",
            hint=f"Add the array {valued}, or use --bank FILE.",
        )
    if found is None:
        raise ArrayMissing(
            f"{pairs.uri} has neither {pairs.said(named)} nor {pairs.said(valued)}, so the "
            f"positives of the {split} pairs are unknown.",
            hint=(
                f"Add the array {named} (row numbers of the bank). If it has another name, "
                f"give its name: --set data.names.{named}=positives"
            ),
        )
    return found


def same_count(pairs: NamedArrays, name: str, got: int, split: str, count: int) -> None:
    if got != count:
        raise BadData(
            f"{name} in {pairs.uri} has {got:,} rows, but there are {count:,} {split} queries."
        )
