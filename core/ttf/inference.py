"""A finished run, opened to be used: encode, search, evaluate."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray

from ttf import host
from ttf.config.schema import RunConfig
from ttf.config.toml import load_run_toml
from ttf.contracts import DevicePolicy, Miner, MinerContext, VectorSource
from ttf.data.dataset import Dataset, Split
from ttf.data.opening import open_dataset, open_queries
from ttf.data.queries import Queries
from ttf.data.refs import OpenRef, open_ref
from ttf.data.stores import create_store
from ttf.documents import Documents
from ttf.errors import BadData
from ttf.evaluate import encode_split, evaluate
from ttf.model import TwoTower, load_model
from ttf.options import NoOptions
from ttf.reporting import Reporter
from ttf.runfolder import RunFolder

_MICRO_BATCH = 256


@dataclass(frozen=True, kw_only=True)
class Found:
    """The best documents of each query, best first; ids are the bank's own where it has any."""

    ids: NDArray[np.int64]
    scores: NDArray[np.float32]


def open_run(run_dir: Path, *, pairs: Path | None = None, bank: Path | None = None) -> Model:
    """Opens a finished run with its own data, or with other pairs or another bank."""
    from ttf.api import prepared_policy

    folder = RunFolder.existing(run_dir)
    resolved = load_run_toml(folder.config)
    policy = prepared_policy(resolved, Reporter())
    policy.start()
    model = load_model(folder.model).to(policy.torch_device())
    changed = {"pairs": pairs, "bank": bank}
    data_config = resolved.config.data.model_copy(
        update={k: str(v) for k, v in changed.items() if v is not None}
    )
    data = open_dataset(data_config)
    try:
        return Model(resolved.config, data, model, policy)
    except BaseException:
        data.close()
        raise


class Model:
    """Trained towers and the bank they search."""

    def __init__(
        self, config: RunConfig, data: Dataset, towers: TwoTower, policy: DevicePolicy
    ) -> None:
        self.towers, self.config = towers, config
        self._data, self._policy = data, policy
        self._precision = policy.precision(config.device.precision)
        wanted, given = towers.doc.in_dim, data.bank.shape[1]
        if wanted != given:
            raise BadData(
                f"The towers were trained on documents of width {wanted}, "
                f"but the bank {data.bank.uri} has width {given}."
            )
        self.documents = Documents(data, towers, policy, given, config.memory.budget_bytes)

    def encode_queries(
        self, x: NDArray[Any], lengths: NDArray[np.int64] | None = None
    ) -> NDArray[np.float32]:
        """Vectors of queries (N, D) or (N, L, D)."""
        parts = []
        with torch.no_grad():
            for start in range(0, len(x), _MICRO_BATCH):
                part = torch.from_numpy(np.array(x[start : start + _MICRO_BATCH], np.float32))
                some = None
                if lengths is not None:
                    some = torch.from_numpy(np.asarray(lengths[start : start + _MICRO_BATCH]))
                parts.append(
                    self.towers.encode_queries(self._policy.to_device(part), some).cpu().numpy()
                )
        return np.concatenate(parts) if parts else np.empty((0, self.documents.dim), np.float32)

    def encode_documents(self, x: NDArray[Any]) -> NDArray[np.float32]:
        """Vectors of documents (N, D)."""
        with torch.no_grad():
            given = torch.from_numpy(np.array(x, np.float32))
            return self.towers.encode_documents(self._policy.to_device(given)).cpu().numpy()

    def search(self, queries: NDArray[Any], k: int = 10) -> Found:
        """The k best documents of raw queries (they are encoded first), exact."""
        return self._find(self.encode_queries(queries), k)

    def search_file(self, queries: Path, k: int, out: Path | None = None) -> Found:
        """The same for the queries of a file; with `out`, ids and scores are written there."""
        with open_queries(str(queries), self.config.data, self._data.bank) as opened:
            wanted, given = self.towers.query.in_dim, opened.queries.dim
            if wanted != given:
                raise BadData(
                    f"The query tower was trained on vectors of width {wanted}, "
                    f"but the queries of {queries} have width {given}."
                )
            found = self._find(self._encode_all(opened.queries), k)
        if out is not None:
            _write(out, found)
        return found

    def _encode_all(self, queries: Queries) -> NDArray[np.float32]:
        rows = np.arange(len(queries), dtype=np.int64)
        split = Split(
            name="queries",
            queries=queries,
            positives=np.full((len(rows), 1), -1, dtype=np.int64),
            keep=rows,
            left_out=0,
        )
        return encode_split(self.towers, split, rows, self._policy, self._precision, _MICRO_BATCH)

    def _find(self, vectors: NDArray[np.float32], k: int) -> Found:
        ids, scores = self._searcher.search(vectors, k)
        own = self._data.bank_ids
        return Found(ids=ids if own is None else own[ids], scores=scores)

    @cached_property
    def _searcher(self) -> Miner:
        context = MinerContext(
            threads=self._policy.threads,
            seed=0,
            deterministic=True,
            budget_bytes=self.config.memory.budget_bytes,
        )
        miner = host.miner("exact").create(NoOptions(), context)
        miner.build(self._finished_documents, self._scratch)
        return miner

    @cached_property
    def _scratch(self) -> Path:
        self._temporary = tempfile.TemporaryDirectory(prefix="ttf-")
        return Path(self._temporary.name)

    @cached_property
    def _finished_documents(self) -> VectorSource:
        self._opened: OpenRef = open_ref(self.documents.reference(self._scratch))
        return self._opened.source

    def evaluate(self, ks: Sequence[int]) -> dict[str, Any]:
        """Metrics of the validation pairs against the full bank."""
        metrics = evaluate(
            self.towers,
            self._data.val,
            self.documents,
            self._policy,
            self._precision,
            _MICRO_BATCH,
            ks,
        )
        return {
            "metrics": metrics,
            "queries": len(self._data.val),
            "bank": self.documents.rows,
            "left_out": self._data.val.left_out,
        }

    def close(self) -> None:
        if "_searcher" in self.__dict__:
            self._searcher.close()
        if "_finished_documents" in self.__dict__:
            self._opened.close()
        if "_scratch" in self.__dict__:
            self._temporary.cleanup()
        self._data.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _write(out: Path, found: Found) -> None:
    writer = create_store(str(out))
    try:
        writer.array("ids", found.ids.shape, "int64").append(found.ids)
        writer.array("scores", found.scores.shape, "float32").append(found.scores)
        writer.commit()
    except BaseException:
        writer.abort()
        raise
