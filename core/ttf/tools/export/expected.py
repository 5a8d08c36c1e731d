"""The queries and documents of the check, and what ttf itself answers to them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from ttf.contracts import MinerContext
from ttf.data.order import sampled_rows
from ttf.data.sources import VectorRef, open_ref
from ttf.data.vectors import to_float32
from ttf.data.writing import array_bytes, make_room
from ttf.errors import storage_error
from ttf.host import plugins
from ttf.host.options import NoOptions
from ttf.host.plugins import written_store
from ttf.machine.memory.limits import budget_bytes

if TYPE_CHECKING:
    from ttf.contracts import Miner, VectorSource
    from ttf.text.progress import Reporter
    from ttf.training.inference import Model

K: Final = 10
_QUERIES: Final = 1_000
_DOCUMENTS: Final = 1_000
_JUDGED: Final = 4_000
_BLOCK: Final = 1_024

Find = Callable[[NDArray[np.float32], int], tuple[NDArray[np.int64], NDArray[np.float32]]]


@dataclass(frozen=True, kw_only=True)
class Asking:
    """Inputs of both towers, for the check."""

    rows: NDArray[np.int64]  # Of the validation pairs' split.
    queries: NDArray[np.float32]
    lengths: NDArray[np.int64] | None
    file_rows: NDArray[np.int64]
    document_rows: NDArray[np.int64]
    documents: NDArray[np.float32]


def asking(model: Model) -> Asking:
    """At most 1,000 validation queries and 1,000 documents, both over the whole file."""
    split, bank = model.judged, model.bank.bank
    rows = _spread(len(split), _QUERIES)
    batch = split.batch(rows)
    documents = sampled_rows(bank.shape[0], min(_DOCUMENTS, bank.shape[0]), 0, "export")
    return Asking(
        rows=rows,
        queries=batch.x,
        lengths=batch.lengths,
        file_rows=split.keep[rows],
        document_rows=documents,
        documents=np.array(to_float32(bank.gather(documents), bank.dtype), np.float32),
    )


def _spread(total: int, most: int) -> NDArray[np.int64]:
    return np.unique(np.linspace(0, total - 1, min(total, most)).astype(np.int64))


def documents_ref(model: Model, folder: Path, reporter: Reporter, *, calibrated: bool) -> VectorRef:
    """The documents for other processes; those of a trained tower are encoded to `folder` first."""
    documents = model.documents
    if documents.fixed:
        ref = documents.reference(folder)
    else:
        shape, path = (documents.rows, documents.dim), folder / "documents.npz"
        reporter.stage("encode documents", documents.rows)
        make_room(folder, array_bytes(shape, "float32"))
        with written_store(str(path)) as writer:
            array = writer.array("vectors", shape, "float32")
            for start, block in documents.blocks():
                array.append(block.numpy())
                reporter.advance(start + len(block), documents.rows)
        ref = VectorRef(uri=str(path.resolve()), array="vectors", storage="npz")
    if not calibrated or model.calibration is None:
        return ref
    column = folder / "calibration.npy"
    try:
        np.save(column, model.calibration.column)
    except OSError as error:
        raise storage_error(error, str(column)) from error
    return replace(ref, column_path=str(column.resolve()))


@contextmanager
def exact_search(ref: VectorRef, model: Model, threads: int, scratch: Path) -> Iterator[Find]:
    """Exact search of other documents than those of `ttf search`."""
    context = MinerContext(
        threads=threads,
        seed=0,
        deterministic=True,
        budget_bytes=budget_bytes(model.config.memory.budget),
    )
    with open_ref(ref) as opened:
        miner: Miner = plugins.usable("miner", "exact").create(NoOptions(), context)
        try:
            miner.build(opened.source, scratch)
            yield lambda queries, k: miner.search(queries, min(k, opened.source.shape[0]))
        finally:
            miner.close()


def with_ones(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.concatenate([vectors, np.ones((len(vectors), 1), np.float32)], axis=1)


def recall_of(
    model: Model, whole: Find, smaller: Find, prepare: Callable[[Any], Any], reporter: Reporter
) -> dict[str, Any]:
    """Recall of both on validation pairs, at most 4,000 of them."""
    split = model.judged
    rows = _spread(len(split), _JUDGED)
    found: dict[str, list[NDArray[np.float64]]] = {}
    for start in range(0, len(rows), _BLOCK):
        part = rows[start : start + _BLOCK]
        known = split.known(part)
        vectors = model.encode_pairs(split, part)
        for name, find, queries in (
            ("all", whole, model.compared(vectors)),
            ("smaller", smaller, prepare(vectors)),
        ):
            best = find(queries, 100)[0]
            for k in (10, 100):
                found.setdefault(f"{name} {k}", []).append(_shares(best[:, :k], known))
        reporter.advance(start + len(part), len(rows))
    means = {key: float(np.concatenate(parts).mean()) for key, parts in found.items()}
    recall: dict[str, Any] = {"queries": len(rows)}
    for k in (10, 100):
        before, after = means[f"all {k}"], means[f"smaller {k}"]
        recall[f"recall@{k}"] = {"all": before, "smaller": after, "loss": before - after}
    return recall


def _shares(best: NDArray[np.int64], known: NDArray[np.int64]) -> NDArray[np.float64]:
    present = known >= 0
    hit = (known[:, :, None] == best[:, None, :]).any(axis=2) & present
    shares: NDArray[np.float64] = hit.sum(axis=1) / np.maximum(present.sum(axis=1), 1)
    return shares


def stored(source: VectorSource, rows: NDArray[np.int64]) -> NDArray[np.float32]:
    return np.array(to_float32(source.gather(rows), source.dtype), np.float32)
