"""A data set for training: two splits of usable pairs with their queries, and the bank.

Arrays are found under the user's names, and each is checked before use; every problem names the
file, the array and the row.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from ttf.contracts import Store, VectorSource
from ttf.data import own_negatives
from ttf.data.foreign_content import foreign_content
from ttf.data.items import whose_numbers
from ttf.data.lengths import lengths_of
from ttf.data.named_arrays import NamedArrays
from ttf.data.set_back import ChangeTimes
from ttf.data.sources import StackedRows, VectorRef
from ttf.data.teacher import Taught, TeacherScores, taught
from ttf.data.vectors import FLOATS, Buffers, RowView, on_disk, to_float32, will_need
from ttf.errors import ArrayMissing, BadData, storage_error
from ttf.text.shell import quoted


def vectors_of(store: Store, names: dict[str, str]) -> VectorSource:
    name = names.get("vectors", "vectors")
    present = store.names()
    if name not in present:
        raise ArrayMissing(
            f"{store.uri} has no {NamedArrays(store, names).said('vectors')}. It has: "
            f"{', '.join(present) or 'no arrays'}.",
            hint=_where_vectors_are(store, present),
        )
    source = store.source(name)
    need_floats(source, str(store.describe(name)["dtype"]), (2,), "(rows, dim)")
    return source


def _where_vectors_are(store: Store, present: Sequence[str]) -> str:
    """Proposes the one array that can be vectors, if it is one."""
    foreign = foreign_content(store)
    if foreign:
        return foreign
    shapes = {name: store.describe(name).get("shape") for name in present}
    flat = [name for name, shape in shapes.items() if shape and len(shape) == 2]
    if (
        not flat
        and len(present) > 1
        and all(shape and len(shape) == 1 for shape in shapes.values())
    ):
        return (
            "If each column has one number of the vectors, put them together: "
            f'numpy.save("bank.npy", table.to_numpy("float32")) with the table of {store.uri}.'
        )
    name = flat[0] if len(flat) == 1 else "embeddings"
    return f"If the array has another name, give its name: --set data.names.vectors={quoted(name)}"


def need_floats(source: VectorSource, stored: str, ranks: tuple[int, ...], shape: str) -> None:
    """`stored`: the type in the file; rows may be read as another one."""
    if source.dtype not in FLOATS:
        raise BadData(
            f"{source.name} in {source.uri} has the type {stored}. Vectors must be float32, "
            "float64, float16 or bfloat16.",
            hint=f"Convert it: ttf data convert {source.uri} OUT --dtype f32",
        )
    if len(source.shape) not in ranks or 0 in source.shape:
        raise BadData(
            f"{source.name} in {source.uri} has the shape {source.shape}. It must have the shape "
            f"{shape} and must not be empty."
        )


def queries_of(pairs: NamedArrays, split: str, context: Callable[[], VectorSource]) -> Queries:
    x, seq = f"X_{split}", f"seq_{split}"
    if x in pairs and seq in pairs:
        raise BadData(
            f"{pairs.uri} has both {x} and {seq}, but it must have only one of them.",
            hint=(
                "To ignore one array, map it to none, for example --set data.names.seq_train=none"
            ),
        )
    if x not in pairs and seq not in pairs:
        raise ArrayMissing(
            f"{pairs.uri} has neither {pairs.said(x)} nor {pairs.said(seq)}. It has: "
            f"{', '.join(pairs.store.names()) or 'no arrays'}.",
            hint=_where_queries_come_from(pairs, split),
        )
    source = pairs[x] if x in pairs else pairs[seq]
    if x in pairs:
        need_floats(source, pairs.stored_type(x), (2, 3), "(N, D) or (N, L, D)")
    elif source.dtype not in ("int32", "int64") or len(source.shape) != 2 or 0 in source.shape:
        raise BadData(
            f"{seq} in {pairs.uri} has the type {pairs.stored_type(seq)} and the shape {source.shape}. It "
            "must be int32 or int64 with the shape (N, L): row numbers of the context, and -1 for "
            "padding."
        )
    return Queries(source, None if x in pairs else context(), lengths_of(pairs, split, source))


def _where_queries_come_from(pairs: NamedArrays, split: str) -> str:
    meant = pairs.look_alike(f"X_{split}", f"seq_{split}")
    if meant is not None:
        role, name = meant
        return f"If {name} is meant: --set data.names.{role}={quoted(name)}"
    mapped = f"If an array has another name, give its name: --set data.names.X_{split}=queries"
    if split != "val" or not (pairs.has_split("train") or pairs.has_split("val")):
        return mapped
    if pairs.has_split("val"):
        return f"{mapped}. Without any *_val array, ttf uses some training pairs for validation."
    return "To use some of the training pairs for validation: --val-split 0.05"


@dataclass(frozen=True, kw_only=True)
class QueryBatch:
    """Inputs of the query tower: (B, D) or (B, L, D) float32; lengths only if they differ."""

    x: NDArray[np.float32]
    lengths: NDArray[np.int64] | None


class Queries:
    """One split's query inputs: vectors as stored, or rows of a context gathered on demand."""

    def __init__(
        self,
        source: VectorSource,
        context: VectorSource | None,
        lengths: NDArray[np.int64] | None,
    ) -> None:
        self.source = source
        self.context = context
        self.lengths = lengths
        self.sequence = context is not None or len(source.shape) == 3
        self.length = source.shape[1] if self.sequence else 1
        self.dim = context.shape[1] if context is not None else source.shape[-1]

    def __len__(self) -> int:
        return self.source.shape[0]

    @property
    def num_steps(self) -> int:
        """Steps of all queries together."""
        return len(self) * self.length

    def batch(self, rows: NDArray[np.int64], buffers: Buffers | None = None) -> QueryBatch:
        """The inputs of some rows; uses memory from `buffers` if given."""
        lengths = None if self.lengths is None else self.lengths[rows]
        if self.context is None:
            x = _gathered(self.source, rows, buffers)
        else:
            steps, lengths = self._steps(rows, lengths)
            flat = _gathered(self.context, steps.reshape(-1), buffers)
            x = flat.reshape(len(rows), self.length, self.dim)
        if lengths is not None and bool((lengths == self.length).all()):
            lengths = None
        if lengths is not None:
            # Whatever lies in the padding: it must not reach a tower, nor be called bad data.
            x[np.arange(self.length) >= lengths[:, None]] = 0.0
        return QueryBatch(x=x, lengths=lengths)

    @property
    def on_disk(self) -> bool:
        return on_disk(self.source if self.context is None else self.context)

    def will_need(self, rows: NDArray[np.int64]) -> None:
        if self.context is None:
            will_need(self.source, rows)
            return
        lengths = None if self.lengths is None else self.lengths[rows]
        will_need(self.context, self._steps(rows, lengths)[0].reshape(-1))

    def context_rows(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """The distinct context rows of some queries, ascending; none if they are stored vectors."""
        if self.context is None:
            return np.empty(0, np.int64)
        lengths = None if self.lengths is None else self.lengths[rows]
        return np.unique(self._steps(rows, lengths)[0])

    def check_steps(self, rows: NDArray[np.int64]) -> None:
        """Raises BadData that names the first row with a step outside the context."""
        if self.context is not None:
            self._steps(rows, None if self.lengths is None else self.lengths[rows])

    def _steps(
        self, rows: NDArray[np.int64], lengths: NDArray[np.int64] | None
    ) -> tuple[NDArray[np.int64], NDArray[np.int64] | None]:
        """Context rows of each step, padding moved to the end (and set to row 0)."""
        assert self.context is not None
        steps = np.asarray(self.source.gather(rows), dtype=np.int64)
        if lengths is not None:
            steps = np.where(np.arange(self.length) < lengths[:, None], steps, -1)
        valid = steps >= 0
        wrong = np.flatnonzero(((steps < -1) | (steps >= self.context.shape[0])).any(axis=1))
        if wrong.size:
            bad = steps[wrong[0]]
            value = bad[(bad < -1) | (bad >= self.context.shape[0])][0]
            raise BadData(
                f"{self.source.name}[{rows[wrong[0]]}] in {self.source.uri} refers to row "
                f"{value}, but {self.context.uri} has rows 0 to {self.context.shape[0] - 1}.",
                hint=whose_numbers(self.context)
                + (" Rows are counted from 0." if value == self.context.shape[0] else ""),
            )
        counts = valid.sum(axis=1)
        empty = np.flatnonzero(counts == 0)
        if empty.size:
            raise BadData(
                f"{self.source.name}[{rows[empty[0]]}] in {self.source.uri} is an empty sequence: "
                "all its steps are padding (-1).",
                hint="Remove such pairs from the file, or set their positive to -1.",
            )
        if not valid.all():
            order = np.argsort(~valid, axis=1, kind="stable")
            steps = np.maximum(np.take_along_axis(steps, order, axis=1), 0)
        return steps, counts


def _gathered(
    source: VectorSource, rows: NDArray[np.int64], buffers: Buffers | None
) -> NDArray[np.float32]:
    if buffers is None:
        return to_float32(source.gather(rows), source.dtype)
    shape = (len(rows), *source.shape[1:])
    out = buffers.rows(shape)
    if source.dtype == "float32":
        return source.gather(rows, out)
    return to_float32(source.gather(rows, buffers.rows(shape, source.dtype)), source.dtype, out)


@dataclass(frozen=True, kw_only=True)
class Split:
    """The usable pairs of a split; its row i is row `keep[i]` of the files."""

    name: str
    queries: Queries
    positives: NDArray[np.int64]
    keep: NDArray[np.int64]
    left_out: int
    drawn: bool = False  # Part of one split of the files: see `ttf.data.val_split`.
    grades: NDArray[np.float32] | None = None  # Of each positive; None: all count the same.
    negatives: NDArray[np.int64] | None = None  # The user's own; `num_own` of a pair join a step.
    num_own: int = 0
    teacher: TeacherScores | None = None  # None: the run does not use them.

    def __len__(self) -> int:
        return len(self.keep)

    def batch(self, rows: NDArray[np.int64], buffers: Buffers | None = None) -> QueryBatch:
        return self.queries.batch(self.keep[rows], buffers)

    def batches(self, parts: Sequence[NDArray[np.int64]]) -> Iterator[QueryBatch]:
        """The inputs of these rows, part by part; the next part is read while the caller computes."""
        buffers = Buffers()
        with ThreadPoolExecutor(1, "ttf-gather") as reader:
            coming = [reader.submit(self.batch, part, buffers) for part in parts[:1]]
            for part in parts[1:]:
                ready = coming.pop().result()
                coming.append(reader.submit(self.batch, part, buffers))
                yield ready
                del ready  # its memory is used again
            for last in coming:
                yield last.result()

    def will_need(self, rows: NDArray[np.int64]) -> None:
        self.queries.will_need(self.keep[rows])

    def known(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Bank rows of the known positives, (B, P), padded with -1."""
        return self.positives[self.keep[rows]]

    def own(self, rows: NDArray[np.int64], seed: int, step: int) -> NDArray[np.int64]:
        """The user's own negatives of some pairs in this step: rows of the bank, each once."""
        if self.negatives is None:
            return np.empty(0, np.int64)
        found = own_negatives.drawn(self.negatives[self.keep[rows]], rows, self.num_own, seed, step)
        return np.unique(found[found >= 0])

    def taught(
        self, rows: NDArray[np.int64], targets: NDArray[np.int64], seed: int, step: int
    ) -> Taught | None:
        """What a teacher says of the targets and the own negatives of some pairs in this step."""
        if self.teacher is None or self.negatives is None:
            return None
        at = self.keep[rows]
        own = self.negatives[at]
        drawn = own_negatives.drawn_places(own, rows, self.num_own, seed, step)
        return taught(
            targets,
            self.positives[at],
            self.teacher.positives_NP[at],
            np.take_along_axis(own, drawn, axis=1),
            np.take_along_axis(self.teacher.negatives_NK[at], drawn, axis=1),
        )

    def graded(self, rows: NDArray[np.int64]) -> NDArray[np.float32] | None:
        """Grades of the known positives, (B, P), padded with 0; None: all count the same."""
        return None if self.grades is None else self.grades[self.keep[rows]]


@dataclass(frozen=True, kw_only=True)
class DrawnFacts:
    """Validation pairs that were drawn from the training pairs."""

    share: float  # What to ask for to draw the same pairs again.
    text: str


@dataclass(kw_only=True)
class OpenBank:
    """The documents of a data set, a VectorSource; owns the open stores."""

    bank: VectorSource
    bank_at: VectorRef
    bank_rows: NDArray[np.int64] | None  # Rows of `bank_at` that are the bank; None: all.
    bank_ids: NDArray[np.int64] | NDArray[np.str_] | None
    notes: list[str]
    stores: list[Store] = field(repr=False)
    times: ChangeTimes = field(default_factory=ChangeTimes, repr=False)

    def bank_ref(self, folder: Path, *, unit: bool) -> VectorRef:
        """A reference another process can open; writes what it needs to `folder`."""
        if self.bank_rows is None:
            return dataclasses.replace(self.bank_at, unit=unit)
        path = folder / "bank-rows.npy"
        try:
            np.save(path, self.bank_rows)
        except OSError as error:
            raise storage_error(error, str(path)) from error
        return dataclasses.replace(self.bank_at, unit=unit, rows_path=str(path.resolve()))

    def document_name(self, row: int) -> str:
        """A document's place in the user's files, for messages: array, row and file."""
        source = self.bank
        if isinstance(source, RowView):
            row, source = int(source.rows[row]), source.source
        if isinstance(source, StackedRows):
            source, row = source.owner_of(row)
        return f"{source.name}[{row}] in {source.uri}"

    def check_unchanged(self) -> None:
        for store in self.stores:
            store.check_unchanged()
        self.times.check()

    def close(self) -> None:
        for store in self.stores:
            store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@dataclass(kw_only=True)
class Dataset(OpenBank):
    train: Split
    val: Split
    val_drawn: DrawnFacts | None = None  # None: the file has validation pairs.

    @property
    def fingerprint(self) -> str:
        """Covers everything that numbers depend on: inputs, bank, positives and lengths."""
        parts = [self.bank.fingerprint()]
        for split in (self.train, self.val):
            queries = split.queries
            parts += [s.fingerprint() for s in (queries.source, queries.context) if s is not None]
            drawn = split.keep if split.drawn else None
            own, teacher = split.negatives, split.teacher
            scores = () if teacher is None else (teacher.positives_NP, teacher.negatives_NK)
            for held in (split.positives, queries.lengths, drawn, split.grades, own, *scores):
                if held is not None:
                    parts.append(hashlib.sha256(np.ascontiguousarray(held).data).hexdigest())
        return hashlib.sha256("|".join(parts).encode()).hexdigest()[:16]

    @property
    def step_sources(self) -> list[VectorSource]:
        """The arrays whose rows steps and evaluations read."""
        queries = (self.train.queries, self.val.queries)
        given = [self.bank, *(s for q in queries for s in (q.source, q.context))]
        return [source for source in given if source is not None]

    @property
    def distinct_documents(self) -> int:
        known = self.train.positives[self.train.keep]
        return len(np.unique(known[known >= 0]))
