"""A finished run, opened to be used: encode, search, evaluate."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self, cast

import numpy as np
import torch
from numpy.typing import NDArray

from ttf.config.schema import RunConfig
from ttf.contracts import DevicePolicy, Miner, MinerContext, TowerShape, VectorSource
from ttf.data.dataset import Dataset, OpenBank, Queries, Split
from ttf.data.given_arrays import given_queries
from ttf.data.given_numbers import given_documents, given_sessions
from ttf.data.items import Items
from ttf.data.open_dataset import Opening
from ttf.data.query_files import open_queries, refuse_other_shape
from ttf.data.sources import VectorRef, open_ref
from ttf.data.writing import check_output
from ttf.errors import BadData, DataMissing, storage_error
from ttf.host import plugins
from ttf.host.options import NoOptions
from ttf.machine.memory.limits import budget_bytes as memory_budget
from ttf.mining.choose import miner_threads
from ttf.mining.scan.scan_counters import Certifies
from ttf.rundir.cache import cache_dir
from ttf.rundir.calibration_facts import calibration_facts
from ttf.rundir.confined import found_json
from ttf.rundir.documents import MODEL_CONFIG, ModelFacts
from ttf.rundir.run_folder import RunFolder
from ttf.rundir.run_record import RunRecord
from ttf.rundir.typed_json import typed
from ttf.text.shell import quoted
from ttf.training.borrowed_torch import TorchSettings, borrowed_torch, borrowing
from ttf.training.calibration.calibrate import Subject
from ttf.training.calibration.stored import BankCalibration, bank_key, bank_of
from ttf.training.documents import Corrected, Documents
from ttf.training.encoded_queries import encode_split
from ttf.training.evaluation import evaluate
from ttf.training.found import Found, found_in, write_found
from ttf.training.tables import Tables
from ttf.training.towers import TwoTower

_MICRO_BATCH = 256


def _facts(folder: RunFolder) -> ModelFacts:
    return typed(found_json(folder.model / MODEL_CONFIG, folder.path), ModelFacts)


def _unfinished(folder: RunFolder) -> list[str]:
    """A note, if the model is not that of a finished run."""
    facts = _facts(folder)
    if "step" not in facts or RunRecord(folder.path).summary().get("status") == "finished":
        return []
    judged = "the best one so far" if facts.get("metrics") else "which was not evaluated yet"
    return [f"The run has not finished: its model is that of step {facts['step']:,}, {judged}."]


class Model:
    """Trained towers and the bank they search; close it (or use `with`) when done."""

    def __init__(
        self,
        config: RunConfig,
        opening: Opening,
        towers: TwoTower,
        shape: TowerShape,
        policy: DevicePolicy,
        folder: RunFolder,
    ) -> None:
        self.towers = towers
        self.config = config
        # Of the files of the run that were opened: what is to be said of those that changed since.
        self.changed_files: list[str] = []
        self._notes = _unfinished(folder)
        self._folder = folder
        self._opening = opening
        self._to_close = contextlib.ExitStack()
        self._afterwards = contextlib.ExitStack()
        self._to_close.callback(opening.close)
        self._shape = shape
        self._dim = cast("int", towers.doc.in_dim)
        self._policy = policy
        self._precision = policy.precision(config.device.precision)
        self._settings = TorchSettings.now()  # opened with those of the device

    def borrowed(self) -> contextlib.AbstractContextManager[None]:
        """Torch as the device of this model needs it, and then as it was."""
        return borrowed_torch(self._settings.apply)

    def __repr__(self) -> str:
        towers = self.config.tower
        try:
            rows, dim = self.bank.bank.shape
            bank = f"bank of {rows:,} x {dim}"
        except DataMissing:
            bank = "its bank is not there"
        return f"Model({towers.query.name} -> {towers.doc.name}, {bank})"

    def open_tables(self, document: object) -> None:
        """The trained rows of this run, if its towers want some; `document`: `tables` of the model."""
        tables = Tables(self.towers, 0, 0, 0)
        self._to_close.callback(tables.close)
        tables.open_newest(self._folder.path, document)

    @property
    def notes(self) -> list[str]:
        """For the user: of a run that has not finished, of files that changed since the training, of
        the calibration, of what a search put in the cache, of the bank."""
        return [*self.changed_files, *self._notes, *self._opening.notes]

    @property
    def bank(self) -> OpenBank:
        """The documents. Raises DataMissing if their file is not there."""
        try:
            bank = self._opening.bank
        except DataMissing as error:
            error.hint = (
                "If the file was moved, say where it is: --bank FILE. In Python: "
                "ttf.load(RUN_DIR, bank=FILE)."
            )
            raise
        wanted, given = self._dim, bank.bank.shape[1]
        if wanted != given:
            raise BadData(
                f"The towers were trained with documents of width {wanted}, but the bank "
                f"{bank.bank.uri} has documents of width {given}."
            )
        return bank

    @cached_property
    def documents(self) -> Documents:
        """The bank as the document tower sees it."""
        budget = memory_budget(self.config.memory.budget)
        return Documents(self.bank, self.towers, self._policy, self._dim, budget)

    @cached_property
    def calibration(self) -> BankCalibration | None:
        """For this bank; None: scores are not corrected."""
        weights, model = _facts(self._folder).get("weights_sha256"), self._folder.model
        bank = self.bank.bank
        found = bank_of(model, bank_key(bank), weights, bank.shape[0])
        if found is None and calibration_facts(model, weights).get("on"):
            given = quoted(self.config.data.bank or "FILE")
            self._notes.append(
                "The model is calibrated, but not for this bank, so its scores are not corrected. "
                f"To calibrate it: ttf calibrate {quoted(self._folder.path)} --bank {given}"
            )
        return found

    @borrowing
    def encode_queries(
        self, x: NDArray[Any] | Sequence[NDArray[Any]], lengths: NDArray[np.int64] | None = None
    ) -> NDArray[np.float32]:
        """Vectors of queries (N, D) or (N, L, D); `lengths` (N,) for sequences shorter than L, whose
        padding is not read. Also of a list of sequences (L_i, D). Of items: their numbers (N, L)."""
        data = self.config.data
        if data.items is not None and data.context is None:
            return self.encode_rows(given_sessions(x, lengths, Items(data.items, data.item_width)))
        return self.encode_query_inputs(x, lengths)

    @borrowing
    def encode_query_inputs(
        self, x: NDArray[Any] | Sequence[NDArray[Any]], lengths: NDArray[np.int64] | None = None
    ) -> NDArray[np.float32]:
        # As the tower reads them: items are rows of zeros with their numbers.
        source = given_queries(x, lengths)
        return self.encode_rows(Queries(source, None, source.lengths))

    @borrowing
    def encode_documents(self, x: NDArray[Any]) -> NDArray[np.float32]:
        """Vectors of documents (N, D), made like those of the bank; where each has a trained row, of
        row numbers (N,)."""
        if self.towers.documents_numbered:
            x = self.documents.read(given_documents(x, self.documents.rows))
        return self.encode_document_inputs(x)

    @borrowing
    def encode_document_inputs(self, x: NDArray[Any]) -> NDArray[np.float32]:
        with torch.no_grad():
            given = torch.from_numpy(np.array(x, np.float32))
            return self.towers.encode_documents(self._policy.to_device(given)).cpu().numpy()

    @borrowing
    def search(
        self,
        queries: NDArray[Any] | Sequence[NDArray[Any]],
        k: int = 10,
        lengths: NDArray[np.int64] | None = None,
    ) -> Found:
        """The k best documents of raw queries (they are encoded first), exact."""
        _ = self.bank  # it may be missing: before the queries are encoded
        return self._find(self.encode_queries(queries, lengths), k)

    @borrowing
    def search_file(
        self,
        queries: Path | str,
        k: int = 10,
        out: Path | None = None,
        *,
        overwrite: bool = False,
    ) -> Found:
        """Searches for the queries of a file; with `out`, writes ids and scores to that file."""
        if out is not None:
            check_output(str(out), overwrite=overwrite)
        _ = self.bank
        with open_queries(
            str(queries), self.config.data, lambda: self.bank.bank, self._notes.append
        ) as found_queries:
            found = self._find(self.encode_rows(found_queries), k)
        if out is not None:
            write_found(out, found)
        return found

    @borrowing
    def encode_rows(
        self, queries: Queries, rows: NDArray[np.int64] | None = None
    ) -> NDArray[np.float32]:
        # `rows` None: all. Errors name the file and the row.
        refuse_other_shape(queries, self._shape)
        keep = np.arange(len(queries), dtype=np.int64)
        rows = keep if rows is None else rows
        if not len(rows):
            return np.empty((0, self._dim), np.float32)
        split = Split(
            name="queries",
            queries=queries,
            positives=np.full((len(keep), 1), -1, dtype=np.int64),
            keep=keep,
            left_out=0,
        )
        return encode_split(self.towers, split, rows, self._policy, self._precision, _MICRO_BATCH)

    def compared(self, vectors: NDArray[np.float32]) -> NDArray[np.float32]:
        """Encoded queries as they are compared with the documents of `reference`: with a 1 as one
        more dimension if the model is calibrated."""
        if self.calibration is None:
            return vectors
        return np.concatenate([vectors, np.ones((len(vectors), 1), np.float32)], axis=1)

    def reference(self, folder: Path) -> VectorRef:
        """The documents for another process, with the calibration as one more dimension; what
        that needs is written to `folder`."""
        ref = self.documents.reference(folder)
        if self.calibration is None:
            return ref
        path = folder / "calibration.npy"
        try:
            np.save(path, self.calibration.column)
        except OSError as error:
            raise storage_error(error, str(path)) from error
        return replace(ref, column_path=str(path.resolve()))

    def _find(self, vectors: NDArray[np.float32], k: int) -> Found:
        return found_in(self.bank, *self.best_rows(self.compared(vectors), k))

    @borrowing
    def best_rows(
        self, compared: NDArray[np.float32], k: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Bank rows and scores for what `compared` returned."""
        rows, scores = self._searcher.search(compared, k)
        if isinstance(self._searcher, Certifies):
            self._notes += self._searcher.tally.take_notes()
        return rows, scores

    @borrowing
    def encode_pairs(
        self, split: Split, rows: NDArray[np.int64], *, fp32: bool = False
    ) -> NDArray[np.float32]:
        """Query vectors of some pairs; `fp32`: without the shorter products of the device."""
        refuse_other_shape(split.queries, self._shape)
        precision = self._policy.precision("fp32") if fp32 else self._precision
        return encode_split(self.towers, split, rows, self._policy, precision, _MICRO_BATCH)

    @cached_property
    def _searcher(self) -> Miner:
        context = MinerContext(
            threads=self.threads,
            seed=0,
            deterministic=True,
            budget_bytes=memory_budget(self.config.memory.budget),
            cache=str(cache_dir()) if self.documents.fixed else None,
        )
        documents = self._finished_documents  # closed after the miner that reads them
        miner = plugins.usable("miner", "exact").create(NoOptions(), context)
        self._to_close.callback(miner.close)
        miner.build(documents, self._scratch)
        return miner

    @cached_property
    def _scratch(self) -> Path:
        return Path(self._to_close.enter_context(tempfile.TemporaryDirectory(prefix="ttf-")))

    @cached_property
    def _finished_documents(self) -> VectorSource:
        opened = open_ref(self.reference(self._scratch))
        self._to_close.callback(opened.close)
        return opened.source

    @cached_property
    def _val(self) -> Split:
        return self._opening.judged()

    @borrowing
    def evaluate(self, ks: Sequence[int]) -> dict[str, Any]:
        """Metrics of the validation pairs against the full bank."""
        queries = self._val.queries
        refuse_other_shape(queries, self._shape)
        metrics: dict[str, Any] = {"metrics": self._metrics(self.documents, ks)}
        if self.calibration is not None:
            corrected = Corrected(self.documents, self.calibration.column)
            metrics = {
                "metrics": self._metrics(corrected, ks),
                "metrics_uncalibrated": metrics["metrics"],
                "calibration": {"on": True, "a": self.calibration.a},
            }
        return {
            **metrics,
            "queries": len(self._val),
            "bank": self.documents.rows,
            "left_out": self._val.left_out,
            "notes": self.notes,
        }

    def _metrics(self, documents: Documents | Corrected, ks: Sequence[int]) -> dict[str, float]:
        return evaluate(
            self.towers,
            self._val,
            documents,
            self._policy,
            self._precision,
            _MICRO_BATCH,
            ks,
        )

    def subject(self, folder: RunFolder) -> Subject:
        """What `ttf calibrate` calibrates."""
        return Subject(
            folder=folder,
            model=self.towers,
            weights_sha256=_facts(folder).get("weights_sha256", ""),
            documents=self.documents,
            bank=self.bank.bank,
            policy=self._policy,
            precision=self._precision,
            micro_batch=_MICRO_BATCH,
            seed=self.config.train.seed,
            settings=self.config.calibrate,
        )

    @cached_property
    def train(self) -> Split:
        """The training pairs."""
        return self._opening.split("train")

    @property
    def judged(self) -> Split:
        """The pairs that `evaluate` judges with: the validation pairs."""
        return self._val

    @property
    def threads(self) -> int:
        """Of a search."""
        return miner_threads(self.config.miner, self._policy.threads)

    @property
    def short_products(self) -> bool:
        """Queries are encoded with bfloat16 products here."""
        return self._precision.name != "fp32"

    @property
    def dataset(self) -> Dataset:
        """Training pairs, validation pairs and bank."""
        return self._opening.dataset

    def close_with(self, close: Callable[[], None]) -> None:
        """Calls `close` when the files of this model are closed."""
        self._afterwards.callback(close)

    def close(self) -> None:
        self._to_close.close()
        self._afterwards.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
