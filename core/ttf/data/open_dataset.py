"""Opens what `[data]` names and checks that pairs, bank and context fit together.

Reads headers and the small integer arrays (positives, lengths), never the vectors, except if
positives must be found by value. Every problem names the file, the array and the row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from ttf.config.schema import DataConfig
from ttf.contracts import Store, VectorSource
from ttf.data import positives as pos
from ttf.data.bank_ids import bank_ids
from ttf.data.dataset import (
    Dataset,
    DrawnFacts,
    OpenBank,
    Queries,
    Split,
    need_floats,
    queries_of,
    vectors_of,
)
from ttf.data.elsewhere import address_of, fetch_as
from ttf.data.grades import grades_of
from ttf.data.items import Items
from ttf.data.known_positives import known_positives, same_count
from ttf.data.named_arrays import NamedArrays
from ttf.data.own_negatives import own_negatives
from ttf.data.set_back import ChangeTimes
from ttf.data.shards import Fetching
from ttf.data.sources import StackedRows, VectorRef
from ttf.data.teacher import NEGATIVES as TEACHER_NEGATIVES, teacher_scores
from ttf.data.val_split import draw_val
from ttf.data.vectors import RowView, SlowRows
from ttf.errors import ArrayMissing, BadData, ConfigError
from ttf.host.plugins import is_local, open_store, storage_for
from ttf.text.shell import quoted

_CHECK_AT_OPEN_BYTES = 64 << 20


def open_dataset(
    config: DataConfig,
    *,
    seed: int = 0,
    teacher: bool = False,
    fetching: Fetching | None = None,
) -> Dataset:
    """`seed`: that of the run; it draws the validation pairs of a file that has none. `teacher`: its
    scores are used. `fetching`: how rows come to this machine that are in an object store."""
    with Opening(config, seed=seed, teacher=teacher, fetching=fetching) as opening:
        opening.refuse_swapped()
        data = opening.dataset
        data.stores = opening.keep()
        data.times = ChangeTimes(data.stores)
        return data


class Opening:
    """Opens the containers of `[data]` on first use: each file once, and only files that are
    needed.

    Leaving the `with` block closes everything, unless `keep` handed it over.
    """

    def __init__(
        self,
        config: DataConfig,
        *,
        seed: int = 0,
        own_pairs: str | None = None,
        teacher: bool = False,
        on_open: Callable[[str], None] = lambda _: None,
        fetching: Fetching | None = None,
    ) -> None:
        """`seed`, `teacher`, `fetching`: see `open_dataset`. `own_pairs`: its targets are the bank if
        there is none; default: those of the pairs. `on_open` is called once with each container
        that is opened."""
        self._config = config
        self._fetching = fetching
        self._seed = seed
        self._teacher = teacher
        self._on_open = on_open
        self._own_pairs = own_pairs or config.pairs
        self._stores: dict[str, Store] = {}
        self._own_positives: dict[str, pos.Positives] = {}
        self.notes: list[str] = []

    def store(self, uri: str) -> Store:
        if uri not in self._stores:
            config = self._config
            store = open_store(uri, config.storage, config.missing, self.notes.append)
            self._stores[uri] = store
            fetch_as(store, self._fetching)
            self._on_open(uri)
        return self._stores[uri]

    def adopt(self, store: Store) -> None:
        """Also closes a store that the caller opened."""
        self._stores[store.uri] = store

    @cached_property
    def pairs(self) -> NamedArrays:
        arrays = self._arrays(self._config.pairs)
        self.notes += arrays.unused()
        return arrays

    @cached_property
    def bank(self) -> OpenBank:
        """The documents; without a bank, the distinct rows of Y."""
        config = self._config
        ids = rows = None
        source: VectorSource
        if config.items is not None:
            if config.bank is not None:
                raise ConfigError(
                    "data.items and data.bank cannot be used together: items have no stored vectors.",
                    hint="To train a vector for each document of a bank: --doc-tower embedding.",
                )
            source = Items(config.items, config.item_width)
            at = VectorRef(source.uri, source.name, "items")  # its rows are trained: never opened
        elif config.bank is not None:
            arrays = self._arrays(config.bank)
            source = vectors_of(arrays.store, config.names)
            ids = bank_ids(arrays, source.shape[0], self.notes.append)
            storage = storage_for(config.bank, config.storage)
            at = VectorRef(address_of(arrays.store), source.name, storage, missing=config.missing)
        else:
            source, at, known = _bank_from_targets(self._arrays(self._own_pairs), config)
            rows = source.rows
            self._own_positives = known if self._own_pairs == config.pairs else {}
            self.notes.append(
                f"No bank was given. ttf uses the {source.shape[0]:,} distinct rows of Y as the "
                "bank."
            )
        return OpenBank(
            bank=source, bank_at=at, bank_rows=rows, bank_ids=ids, notes=self.notes, stores=[]
        )

    def refuse_swapped(self) -> None:
        """Raises BadData if pairs and bank are each the other file."""
        if self._config.bank is None:
            return
        pairs, bank = self.pairs, self._arrays(self._config.bank)
        if bank.has_split("train") > pairs.has_split("train") and "vectors" not in bank:
            raise BadData(
                f"pairs and bank look swapped: {bank.uri} has pairs and no `vectors`, and "
                f"{pairs.uri} has no pairs.",
                hint=f"--pairs {quoted(bank.uri)} --bank {quoted(pairs.uri)}",
            )

    @cached_property
    def context(self) -> VectorSource:
        """The array that seq_* refers to."""
        config = self._config
        if config.context:
            return vectors_of(self.store(config.context), config.names)
        if config.items is not None:
            return self.bank.bank
        self.notes.append(
            f"seq_* of {config.pairs} contain row numbers, and no --context was given, so ttf "
            "reads these rows from the bank. If they belong to another file, the run cannot "
            "learn: add --context FILE."
        )
        return self.bank.bank

    @cached_property
    def dataset(self) -> Dataset:
        """Bank, training pairs and validation pairs; this object keeps the open stores."""
        bank, train, val = self.bank, self.split("train"), self.split("val")
        _same_inputs(self.pairs, train.queries, val.queries)
        self._note_slow_rows(bank.bank, *self._query_rows(train))
        if TEACHER_NEGATIVES in self.pairs and not self._teacher:
            self.notes.append(
                f"The scores of a teacher in {self.pairs.uri} are not used. To train towards them too: "
                "--set loss.teacher=0.5"
            )
        return Dataset(**vars(bank), train=train, val=val, val_drawn=self.val_drawn)

    def _query_rows(self, train: Split) -> Iterator[VectorSource]:
        yield train.queries.source
        if train.queries.source.name.startswith("seq"):
            yield self.context

    def _note_slow_rows(self, *sources: VectorSource) -> None:
        for source in sources:
            if isinstance(source, SlowRows) and source.slow_rows:
                path = Path(source.uri)
                into = path.with_name(f"{path.name.split('.')[0]}.npz")
                self.notes.append(
                    f"{source.slow_rows} Convert it once: "
                    f"ttf data convert {quoted(source.uri)} {quoted(str(into))}"
                )

    def split(self, name: Literal["train", "val"]) -> Split:
        """The usable pairs of one split."""
        parts = self._held_out or self._drawn
        if parts is None:
            return self._split_of_file(name)
        train, val, _ = parts
        return train if name == "train" else val

    def judged(self) -> Split:
        """The pairs whose metrics are asked for: the validation pairs; of a file that is not the
        run's own and has none, all pairs, for it was made to be judged."""
        pairs = self.pairs
        if self._is_of_the_run or pairs.has_split("val") or not pairs.has_split("train"):
            return self.split("val")
        whole = self._split_of_file("train")
        self.notes.append(
            f"{pairs.uri} has no validation pairs (X_val or seq_val), so these are the metrics of "
            f"all its {len(whole):,} pairs ({whole.queries.source.name}). If the run was trained on "
            "some of them, they do not show how good it is for new queries."
        )
        return whole

    @cached_property
    def _is_of_the_run(self) -> bool:
        own, given = self._own_pairs, self._config.pairs
        if own is None or given is None or not (is_local(own) and is_local(given)):
            return own == given
        return Path(own).resolve() == Path(given).resolve()

    @cached_property
    def _held_out(self) -> tuple[Split, Split, DrawnFacts] | None:
        # Of the pairs that a run without it trains on: neither part has a validation pair.
        share = self._config.hold_out
        if share == 0 or not self._is_of_the_run or not self.pairs.has_split("train"):
            return None
        whole = self._split_of_file("train") if self._drawn is None else self._drawn[0]
        held = draw_val(whole, share, self._seed, of_items=self._config.items is not None)
        self.notes.append(
            f"data.hold_out: the run is evaluated on some training pairs, not on the validation "
            f"pairs, and does not train on them: {held[2].text}; seed {self._seed}."
        )
        return held

    @property
    def val_drawn(self) -> DrawnFacts | None:
        return None if self._drawn is None else self._drawn[2]

    @cached_property
    def _drawn(self) -> tuple[Split, Split, DrawnFacts] | None:
        share, pairs = self._config.val_split, self.pairs
        if pairs.has_split("val"):
            if share not in ("auto", 0) and self._is_of_the_run:
                self.notes.append(
                    f"data.val_split = {share:g} is not used: {pairs.uri} has validation pairs."
                )
            return None
        if share == 0 or not pairs.has_split("train"):
            return None  # the error of a missing array says what to do
        whole, of_items = self._split_of_file("train"), self._config.items is not None
        drawn = draw_val(whole, share, self._seed, of_items=of_items)
        self.notes.append(
            f"{pairs.uri} has no validation pairs (X_val or seq_val). ttf uses some training "
            f"pairs for validation, and does not train on them: {drawn[2].text}; seed "
            f"{self._seed}. To change the share: --val-split F."
        )
        return drawn

    def _split_of_file(self, name: str) -> Split:
        pairs, bank = self.pairs, self.bank.bank
        queries = queries_of(pairs, name, lambda: self.context)
        known = self._known(name, len(queries))
        if known.unmatched:
            self.notes.append(
                f"{known.unmatched:,} of {len(queries):,} {name} pairs have no positive in the "
                "bank (it is unknown, or Y is equal to no row of the bank). ttf does not use "
                "these pairs."
            )
        keep = known.usable
        if not len(keep):
            raise BadData(
                f"None of the {len(queries):,} {name} pairs of {pairs.uri} has a positive "
                f"in the bank {bank.uri}.",
                hint=f"Check that pos_{name} or Y_{name} belongs to this bank.",
            )
        if queries.num_steps * 8 <= _CHECK_AT_OPEN_BYTES:
            queries.check_steps(keep)
        return Split(
            name=name,
            queries=queries,
            positives=known.rows,
            keep=keep,
            left_out=known.unmatched,
            grades=grades_of(pairs, name, known.rows),
            **self._own_negatives(name, known.rows),
        )

    def _own_negatives(self, name: str, positives: NDArray[np.int64]) -> dict[str, Any]:
        number = self._config.own_negatives
        if name != "train" or not number or self._own_bank:
            if name == "train" and self._teacher:
                raise ConfigError(
                    "loss.teacher needs your own negatives (neg_train) and a bank: a teacher's scores are "
                    "those of a query's positive and of its own negatives.",
                    hint="Set data.own_negatives above 0 and give --bank, or --set loss.teacher=0",
                )
            return {}
        found = own_negatives(self.pairs, len(positives), self.bank.bank.shape[0])
        width = 0 if found is None else min(number, found.shape[1])
        scores = teacher_scores(self.pairs, positives, found) if self._teacher else None
        return {"negatives": found, "num_own": width, "teacher": scores}

    @property
    def _own_bank(self) -> bool:
        """The pairs' own targets are the bank, so no array can have its row numbers."""
        return self._config.bank is None and self._config.items is None

    def _known(self, name: str, count: int) -> pos.Positives:
        pairs = self.pairs
        own_bank = self._own_bank
        if own_bank and f"pos_{name}" in pairs:
            self.notes.append(
                f"pos_{name} is not used: it contains row numbers of a bank, and no bank was given."
            )
        if name in self._own_positives:
            known = self._own_positives[name]
            same_count(pairs, f"Y_{name}", len(known.rows), name, count)
            return known
        return known_positives(
            pairs, name, self.bank.bank, count, by_value=own_bank, say=self.notes.append
        )

    def _arrays(self, uri: str | None) -> NamedArrays:
        if uri is None:
            raise ConfigError("No training pairs were given.", hint="Add --pairs FILE.")
        return NamedArrays(self.store(uri), self._config.names)

    def keep(self) -> list[Store]:
        """Hands the open stores to the caller, who closes them."""
        stores, self._stores = list(self._stores.values()), {}
        return stores

    def close(self) -> None:
        for store in self.keep():
            store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _bank_from_targets(
    pairs: NamedArrays, config: DataConfig
) -> tuple[RowView, VectorRef, dict[str, pos.Positives]]:
    """The distinct rows of Y_train, then of Y_val, as a view; and every pair's row in it."""
    targets = []
    names = ["Y_train", "Y_val"] if pairs.has_split("val") else ["Y_train"]
    for name in names:
        if name not in pairs:
            raise ArrayMissing(
                f"No bank was given, and {pairs.uri} has no {name} from which ttf could make a "
                "bank.",
                hint="Add --bank FILE (array `vectors`). For items without vectors: --items N.",
            )
        targets.append(pairs[name])
        need_floats(targets[-1], pairs.stored_type(name), (2,), "(N, D)")
    first, last = targets[0], targets[-1]
    if (first.shape[1], first.dtype) != (last.shape[1], last.dtype):
        raise BadData(
            f"Y_train {first.dtype} {first.shape} and Y_val {last.dtype} "
            f"{last.shape} of {pairs.uri} differ in width or type."
        )
    stacked = StackedRows(targets)
    rows, inverse = pos.distinct_rows(stacked)
    storage = storage_for(pairs.uri, config.storage)
    bank_at = VectorRef(address_of(pairs.store), stacked.name, storage, missing=config.missing)
    count = targets[0].shape[0]
    known = {
        "train": pos.Positives(rows=inverse[:count, None], matched_by_value=count),
        "val": pos.Positives(rows=inverse[count:, None], matched_by_value=len(inverse) - count),
    }
    return RowView(stacked, rows), bank_at, known


def _same_inputs(pairs: NamedArrays, train: Queries, val: Queries) -> None:
    if (train.dim, train.sequence) != (val.dim, val.sequence) or train.length != val.length:
        raise BadData(
            f"The training queries and the validation queries of {pairs.uri} have different "
            f"shapes: {train.source.name} {train.source.shape}, {val.source.name} "
            f"{val.source.shape}."
        )
