"""The vectors of `ttf mine`: from files, or from a finished run."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from ttf.data.kept_for import content_key
from ttf.data.sources import VectorRef
from ttf.data.vectors import FLOATS, UnitRows, to_float32
from ttf.errors import ArrayMissing, BadData, storage_error
from ttf.host.plugins import open_store
from ttf.rundir.confined import sha256_file
from ttf.rundir.outputs import temporary_folder
from ttf.tools.mine.table_file import refuse_inputs, storage_of

if TYPE_CHECKING:
    from ttf.contracts import Store, VectorSource

_BLOCK_ROWS: Final = 4096


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """A bank that another process can open, and queries in blocks."""

    bank: VectorRef
    rows: int
    dim: int
    num_queries: int
    identity: str  # equal for equal query vectors
    notes: tuple[str, ...] = ()  # For the user; they were said.
    blocks: Callable[[], Iterator[NDArray[np.float32]]]


def _open(uri: str, storage: str, missing: str, say: Callable[[str], None]) -> Store:
    hint = "Rename the file, or give its storage plugin: --set data.storage=NAME."
    return open_store(uri, storage_of(uri, storage, hint), missing, say)


@contextlib.contextmanager
def file_inputs(
    queries: Path | str,
    bank: Path | str,
    *,
    unit: bool,
    storage: str,
    missing: str,
    say: Callable[[str], None],
) -> Iterator[Inputs]:
    """Query vectors from a file: `vectors`, or a two-dimensional X_*."""
    with (
        contextlib.closing(_open(str(queries), storage, missing, say)) as query_store,
        contextlib.closing(_open(str(bank), storage, missing, say)) as bank_store,
    ):
        source = _query_source(query_store.source, list(query_store.names()), str(queries), say)
        documents = bank_store.source("vectors")
        _need_vectors(documents)
        if source.shape[1] != documents.shape[1]:
            raise BadData(
                f"{source.name} in {queries} has the width {source.shape[1]}, but vectors in "
                f"{bank} has the width {documents.shape[1]}.",
                hint=(
                    "Queries of another width must be encoded by a trained tower: ttf mine RUN_DIR."
                ),
            )
        seen = UnitRows(source) if unit else source
        yield Inputs(
            bank=VectorRef(str(bank), "vectors", storage, unit=unit, missing=missing),
            rows=documents.shape[0],
            dim=documents.shape[1],
            num_queries=source.shape[0],
            identity=content_key(seen),
            blocks=lambda: _blocks(seen),
        )


@contextlib.contextmanager
def run_inputs(
    run_dir: Path,
    bank: Path | str | None,
    out: Path,
    *,
    say: Callable[[str], None],
    allow_remote: bool = False,
) -> Iterator[Inputs]:
    """The training queries of a run, encoded by its tower; row i is row i of the pairs file."""
    from ttf.config.resolve import load_run_toml
    from ttf.rundir.run_folder import RunFolder
    from ttf.training.open_run import open_run
    from ttf.training.towers import WEIGHTS

    folder = RunFolder.existing(run_dir)
    config = load_run_toml(folder.config).config.data
    if bank is not None:
        config = config.model_copy(update={"bank": str(bank)})
    refuse_inputs(out, [p for p in (config.pairs, config.bank, config.context) if p])
    with (
        open_run(run_dir, bank=bank, allow_remote=allow_remote) as model,
        model.borrowed(),
        _beside(out) as temp,
    ):
        data = model.dataset
        queries = data.train.queries
        for note in model.notes:
            say(note)

        def blocks() -> Iterator[NDArray[np.float32]]:
            for start in range(0, len(queries), _BLOCK_ROWS):
                rows = np.arange(start, min(start + _BLOCK_ROWS, len(queries)), dtype=np.int64)
                batch = queries.batch(rows)
                yield model.compared(model.encode_query_inputs(batch.x, batch.lengths))

        weights = sha256_file(folder.model / WEIGHTS, folder.path)
        content = [content_key(s) for s in (queries.source, queries.context) if s is not None]
        yield Inputs(
            bank=model.reference(temp),
            rows=data.bank.shape[0],
            dim=model.documents.dim + (model.calibration is not None),
            num_queries=len(queries),
            identity=f"{weights}|{data.fingerprint}|{content}|{model.calibration is not None}",
            notes=tuple(model.notes),
            blocks=blocks,
        )


@contextlib.contextmanager
def _beside(out: Path) -> Iterator[Path]:
    # On the disk of `out`: encoded documents may be large.
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        temp = temporary_folder(out)
    except OSError as error:
        raise storage_error(error, str(out)) from error
    try:
        yield temp.path
    finally:
        temp.remove()


def _query_source(
    source: Callable[[str], VectorSource], names: list[str], path: str, say: Callable[[str], None]
) -> VectorSource:
    found = [n for n in ("vectors", *sorted(names)) if n in names]
    found = [n for n in dict.fromkeys(found) if n == "vectors" or n.startswith("X_")]
    if not found:
        raise ArrayMissing(
            f"{path} has no array `vectors` or X_*. It has: {', '.join(names) or 'no arrays'}.",
            hint="Sequences (seq_*) must be encoded by a trained tower: ttf mine RUN_DIR.",
        )
    if len(found) > 1:
        say(
            f"{path} has several arrays of queries. ttf uses {found[0]} and ignores "
            f"{', '.join(found[1:])}."
        )
    chosen = source(found[0])
    _need_vectors(chosen)
    return chosen


def _need_vectors(source: VectorSource) -> None:
    if source.dtype in FLOATS and len(source.shape) == 2:
        return
    sequences = len(source.shape) == 3
    raise BadData(
        f"{source.name} in {source.uri} has the type {source.dtype} and the shape {source.shape}. "
        "It must be float32, float16 or bfloat16 with the shape (rows, dim).",
        hint="Sequences must be encoded by a trained tower: ttf mine RUN_DIR." if sequences else "",
    )


def _blocks(source: VectorSource) -> Iterator[NDArray[np.float32]]:
    for start in range(0, source.shape[0], _BLOCK_ROWS):
        stop = min(start + _BLOCK_ROWS, source.shape[0])
        yield to_float32(source.read(start, stop), source.dtype)
