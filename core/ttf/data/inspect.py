"""What a container holds and what is wrong with it: the facts for inspect and verify.

Also whether `ttf train` would accept it, as far as one file can tell: the checks are those of
`ttf.data.open_dataset`, split by split, so that all problems come at once.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ttf.contracts import DType, Store, VectorSource
from ttf.data import positives
from ttf.data.convert import Rows, stream_rows
from ttf.data.dataset import need_floats, queries_of
from ttf.data.elsewhere import near_rows
from ttf.data.foreign_content import foreign_content, is_sparse
from ttf.data.lengths import lengths_of
from ttf.data.named_arrays import KINDS, SPLITS, NamedArrays
from ttf.data.text_arrays import column_type, columns_left_out, stored_kind, text_of
from ttf.data.vectors import FLOATS, row_norms, to_float32
from ttf.data.writing import block_rows
from ttf.errors import ArrayMissing, BadData
from ttf.host.plugins import open_store

_ANY_BANK: Final = 1 << 62  # Rows of an unknown bank: any position from 0 on is possible.
SAMPLE_BYTES: Final = 32 << 20
SAMPLE_ROWS: Final = 4096
_NAMED: Final = 3
_VECTORS: Final = ("X_", "Y_", "vectors")
_NUMBERS: Final = ("rel_", "score")  # Of documents: zero is a value like others.
_ZERO: Final = "No query can find such a vector."
_ZERO_QUERY: Final = "All documents are equally near to such a query."


@dataclass
class ArrayFacts:
    """One array as in `ttf data inspect --json`; None: not checked."""

    name: str
    shape: list[int] | None
    dtype: str | None
    stored: str
    mappable: bool
    aligned: bool
    bytes: int
    finite: bool | None = None
    norms: dict[str, float | None] = field(default_factory=dict)
    rows_seen: int = 0


@dataclass
class Inspection:
    path: str
    container: str
    arrays: list[ArrayFacts]
    problems: list[str]
    hints: list[str]  # Remedies for the problems, each once.
    notes: list[str] = field(default_factory=list)  # What `ttf train` will make of the file.

    def note(self, error: BadData) -> None:
        self.problems.append(str(error))
        self.hints.append(error.hint)


def inspect(
    uri: str, *, storage: str = "auto", full: bool = False, missing: str = "refuse"
) -> Inspection:
    """Looks at a bounded sample of rows, or at all of them; BadData if the container cannot be
    opened."""
    store = open_store(uri, storage, missing)
    try:
        seen = _inspect(store, full)
        if not full and store.container == "npz":
            seen.notes.append(
                "Checksums were not compared, here as in training: ttf data verify reads everything."
            )
        return seen
    finally:
        store.close()


def verify(uri: str, *, storage: str = "auto", missing: str = "refuse") -> Inspection:
    """Reads everything: the container checks checksums and sizes, this module every number."""
    store = open_store(uri, storage, missing)
    try:
        found = list(store.verify())
        seen = _inspect(store, full=not found)
        seen.problems = list(dict.fromkeys([*found, *seen.problems]))
        store.check_unchanged()
        return seen
    finally:
        store.close()


def _inspect(store: Store, full: bool) -> Inspection:
    seen = Inspection(store.uri, store.container, [], [], [])
    for name in store.names():
        seen.arrays.append(_array(store, name, full, seen))
    if not seen.arrays:
        seen.note(BadData(f"{store.uri} contains no arrays.", hint=foreign_content(store)))
    elif is_sparse(store):
        problem = f"{store.uri} holds a sparse matrix, whose rows ttf cannot read."
        seen.problems, seen.hints = [problem], [foreign_content(store)]
        return seen
    others = columns_left_out(store)
    if others:
        kinds = {name: column_type(store, name) for name in others}
        named = ", ".join(n if kind == "text" else f"{n} ({kind})" for n, kind in kinds.items())
        verb = "is no array" if len(others) == 1 else "are no arrays"
        seen.notes.append(
            f"{named} {verb} of numbers; ttf reads such columns only as ids, if texts."
        )
    seen.problems += _shape_problems({a.name: a for a in seen.arrays})
    seen.problems += _id_problems(store, {a.name: a for a in seen.arrays})
    for error in unfit(store):
        seen.note(error)
    seen.notes += _notes(NamedArrays(store, {}))
    seen.problems = list(dict.fromkeys(seen.problems))
    seen.hints = list(dict.fromkeys(h for h in seen.hints if h))
    return seen


def _array(store: Store, name: str, full: bool, seen: Inspection) -> ArrayFacts:
    about: Mapping[str, Any] = store.describe(name)
    facts = ArrayFacts(
        name=name,
        shape=about.get("shape"),
        dtype=about.get("dtype"),
        **{key: about[key] for key in ("stored", "mappable", "aligned", "bytes")},
    )
    if facts.shape == [] and stored_kind(store, name) in ("U", "S"):
        return facts  # a remark of the program that wrote the file
    if text_of(store, name) is not None:
        facts.rows_seen = facts.shape[0] if facts.shape else 0
        return facts
    if name == "ids" and stored_kind(store, name) == "O":  # training does not need them
        seen.notes.append(f"{name} holds pickled Python objects, which ttf does not load.")
        return facts
    try:
        source = store.source(name)
    except BadData as error:
        seen.note(error)
        if full and facts.shape:
            _measure_stream(store, name, facts, seen)
        return facts
    facts.shape = list(source.shape)
    refused = source.dtype not in FLOATS and name.startswith(_VECTORS)
    if facts.dtype != source.dtype and not refused:
        seen.notes.append(
            f"{name} is {facts.dtype}: its rows are converted to {source.dtype} as they are read. "
            "ttf data convert does it once."
        )
    blocks = _all_blocks(source) if full else sampled_blocks(source)
    _measure(
        blocks, source.dtype, facts, f"{store.uri}: {name}", seen, _lengths(store, name, source)
    )
    return facts


def _lengths(store: Store, name: str, source: VectorSource) -> NDArray[np.int64] | None:
    """Of the sequences of X_*: what lies after them is never read, so it may be anything."""
    kind, _, split = name.partition("_")
    if kind != "X" or len(source.shape) != 3:
        return None
    with contextlib.suppress(BadData):  # lengths that fit no sequence: a problem of its own
        return lengths_of(NamedArrays(store, {}), split, source)
    return None


def _measure_stream(store: Store, name: str, facts: ArrayFacts, seen: Inspection) -> None:
    # A compressed array is measured only if all rows are read anyway.
    try:
        rows: Rows = stream_rows(store, name)
        numbered = _numbered(rows.blocks)
        _measure(numbered, rows.dtype, facts, f"{store.uri}: {name}", seen)
    except BadData as error:
        if str(error) not in seen.problems:
            seen.problems.append(str(error))


def _measure(
    blocks: Iterator[tuple[NDArray[np.int64], NDArray[Any]]],
    dtype: DType,
    facts: ArrayFacts,
    where: str,
    seen: Inspection,
    lengths: NDArray[np.int64] | None = None,
) -> None:
    facts.finite = True
    low, high, total, count = np.inf, -np.inf, 0.0, 0
    wrong, zero = _FoundRows(), _FoundRows()
    for ids, rows in blocks:
        facts.rows_seen += len(rows)
        if dtype not in FLOATS or not rows.size:
            continue
        wide = to_float32(rows, dtype)
        valid = np.ones(wide.shape[:-1], np.bool_)
        if lengths is not None:
            valid = np.arange(wide.shape[1]) < lengths[ids][:, None]
            wide = np.where(valid[..., None], wide, np.float32(0))
        good = np.isfinite(wide).reshape(len(wide), -1).all(axis=1)
        wrong.add(ids[~good])
        if wide.ndim > 1:
            norms = row_norms(wide[good]).astype(np.float64)
            zero.add(ids[good][(norms == 0).all(axis=tuple(range(1, norms.ndim)))])
            norms = norms[valid[good]]
            if norms.size:
                low, high = min(low, float(norms.min())), max(high, float(norms.max()))
                total, count = total + float(norms.sum()), count + norms.size
    if count:
        facts.norms = {"min": low, "mean": total / count, "max": high}
    if wrong.count:
        facts.finite = False
        seen.problems.append(
            f"{where}: {wrong.count} of the {facts.rows_seen} checked rows {wrong.are} not finite (NaN or "
            f"infinite): {wrong}."
        )
    if zero.count and not facts.name.startswith(_NUMBERS):
        text = (
            f"{where}: {zero.count} of the {facts.rows_seen} checked rows {zero.are} zero: {zero}."
        )
        if zero.count == facts.rows_seen:
            seen.problems.append(f"{text} Such vectors cannot be compared.")
        else:
            seen.notes.append(f"{text} {_ZERO_QUERY if facts.name.startswith('X_') else _ZERO}")


@dataclass
class _FoundRows:
    """Rows of a kind: the first few and how many. A small file can hold millions of them."""

    count: int = 0
    first: list[int] = field(default_factory=list)

    def add(self, ids: NDArray[np.int64]) -> None:
        self.count += len(ids)
        self.first += ids[: _NAMED - len(self.first)].tolist()

    @property
    def are(self) -> str:
        return "is" if self.count == 1 else "are"

    def __str__(self) -> str:
        return ", ".join(map(str, self.first)) + (", ..." if self.count > _NAMED else "")


def _numbered(
    blocks: Iterator[NDArray[Any]],
) -> Iterator[tuple[NDArray[np.int64], NDArray[Any]]]:
    start = 0
    for block in blocks:
        yield np.arange(start, start + len(block)), block
        start += len(block)


def _all_blocks(source: VectorSource) -> Iterator[tuple[NDArray[np.int64], NDArray[Any]]]:
    step, rows = block_rows(source.shape), source.shape[0]
    return _numbered(source.read(s, min(s + step, rows)) for s in range(0, rows, step))


def sampled_blocks(source: VectorSource) -> Iterator[tuple[NDArray[np.int64], NDArray[Any]]]:
    """Rows spread evenly over the array, including the first and the last; of an array elsewhere only
    over what a look needs to fetch."""
    rows, step = near_rows(source), block_rows(source.shape)
    most = min(rows, SAMPLE_ROWS, max(2, SAMPLE_BYTES // (16 << 20) * step))
    ids = np.unique(np.linspace(0, max(0, rows - 1), most).astype(np.int64))
    for start in range(0, len(ids), step):
        part = ids[start : start + step]
        yield part, source.gather(part)


def _shape_problems(arrays: Mapping[str, ArrayFacts]) -> list[str]:
    """Arrays of a split must have the same number of rows, those of a kind the same width."""
    problems = []
    for split in SPLITS:
        rows = {
            name: facts.shape[0]
            for kind in KINDS
            for name in [f"{kind}_{split}"]
            if (facts := arrays.get(name)) and facts.shape
        }
        if len(set(rows.values())) > 1:
            shown = ", ".join(f"{name} {count}" for name, count in rows.items())
            problems.append(f"The arrays of {split} have different numbers of rows: {shown}.")
    for kind in ("X", "seq", "Y"):
        one, other = arrays.get(f"{kind}_train"), arrays.get(f"{kind}_val")
        if one and other and one.shape and other.shape and one.shape[1:] != other.shape[1:]:
            problems.append(
                f"A row of {kind}_train has the shape {tuple(one.shape[1:])}, but a row of "
                f"{kind}_val has the shape {tuple(other.shape[1:])}."
            )
    return problems


def _id_problems(store: Store, arrays: Mapping[str, ArrayFacts]) -> list[str]:
    # `ids` name the rows of `vectors`, each once. A table of candidates has ids as often as they were
    # found.
    ids, vectors = arrays.get("ids"), arrays.get("vectors")
    if not ids or not ids.shape or len(ids.shape) != 1:
        return []
    held: NDArray[Any] | None = text_of(store, "ids")
    if held is None and ids.mappable:
        held = store.source("ids").read(0, ids.shape[0])
    if held is None:
        return []
    problems = []
    if vectors and vectors.shape and vectors.shape[0] != ids.shape[0]:
        problems.append(f"ids has {ids.shape[0]} rows, but vectors has {vectors.shape[0]}.")
    values, counts = np.unique(held, return_counts=True)
    if (counts > 1).any():
        double = values[counts > 1]
        problems.append(f"{len(double)} ids occur more than once, for example {double[0]}.")
    return problems


# --- whether `ttf train` would take it ----------------------------------------------------------


def looks_like_pairs(names: Sequence[str]) -> bool:
    known = {f"{kind}_{split}" for kind in ("X", "seq", "pos", "Y") for split in SPLITS}
    return not known.isdisjoint(names)


def unfit(store: Store) -> Iterator[BadData]:
    """Every reason why `ttf train` would refuse this file, as pairs or as a bank."""
    arrays = NamedArrays(store, {})
    if "vectors" in arrays:  # queries of `ttf search` may have three dimensions
        yield from _raised(lambda: _floats(arrays, "vectors", (2, 3), "(rows, dim)"))
    if looks_like_pairs(store.names()):
        for split in SPLITS:
            # Without validation pairs, some of the training pairs are drawn.
            if split == "train" or arrays.has_split(split):
                yield from _split(arrays, split)


def _notes(arrays: NamedArrays) -> Iterator[str]:
    if looks_like_pairs(arrays.store.names()):
        yield from arrays.unused()
    sequences = [f"seq_{split}" for split in SPLITS if f"seq_{split}" in arrays]
    if sequences:
        yield (
            f"{' and '.join(sequences)}: row numbers of the file that is given with --context. "
            "Without --context, ttf reads these rows from the bank."
        )
    if arrays.has_split("train") and not arrays.has_split("val"):
        yield (
            "There are no validation pairs. ttf train uses some training pairs for validation "
            "(--val-split)."
        )


def _split(arrays: NamedArrays, split: str) -> Iterator[BadData]:
    def queries() -> None:
        # seq_* refers to another file: use its own numbers as context, they are never followed.
        queries_of(arrays, split, lambda: arrays[f"seq_{split}"])

    yield from _raised(queries)
    named, valued = f"pos_{split}", f"Y_{split}"
    if valued in arrays:
        yield from _raised(lambda: _floats(arrays, valued, (2,), "(N, D)"))
    if named in arrays:
        yield from _raised(lambda: _known(arrays, split))
    elif valued not in arrays:
        yield ArrayMissing(
            f"{arrays.uri} has neither {named} nor {valued}, so the positives of the {split} "
            "pairs are unknown.",
            hint=f"Add the array {named} (row numbers of the bank).",
        )


def _floats(arrays: NamedArrays, name: str, ranks: tuple[int, ...], shape: str) -> None:
    need_floats(arrays[name], arrays.stored_type(name), ranks, shape)


def _known(arrays: NamedArrays, split: str) -> None:
    """Raises BadData if no pair has a positive, and none can be found by value."""
    found = positives.named_rows(arrays, f"pos_{split}", _ANY_BANK)
    if not len(found.usable) and f"Y_{split}" not in arrays:
        raise BadData(
            f"None of the {len(found.rows):,} {split} pairs of {arrays.uri} has a positive: every "
            f"value of pos_{split} is -1.",
            hint=f"Write row numbers of the bank into pos_{split}, or add the array Y_{split}.",
        )


def _raised(check: Callable[[], None]) -> Iterator[BadData]:
    try:
        check()
    except BadData as error:
        yield error
