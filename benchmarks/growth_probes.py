"""What is measured while something grows: each probe sets itself up and gives one call to time.

Runs in a process of its own (`bench_growth.py --child`), so that its peak of memory is its own.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Call = Callable[[], object]
_BLOCK = 1 << 16


@dataclass(frozen=True, kw_only=True)
class Size:
    """The sizes of a data set; what a series does not vary stays small."""

    bank: int = 10_000
    pairs: int = 10_000
    length: int = 1
    dim: int = 64

    @property
    def x_shape(self) -> tuple[int, ...]:
        return (self.pairs, self.dim) if self.length == 1 else (self.pairs, self.length, self.dim)


def make(folder: Path, size: Size, val: int = 128) -> None:
    """pairs.npz and bank.npz; noise: no value matters to the time."""
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    np.savez(folder / "bank.npz", vectors=_noise(rng, (size.bank, size.dim)))
    np.savez(
        folder / "pairs.npz",
        X_train=_noise(rng, size.x_shape),
        X_val=_noise(rng, (val, *size.x_shape[1:])),
        pos_train=rng.integers(0, size.bank, size.pairs),
        pos_val=rng.integers(0, size.bank, val),
    )


def _noise(rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.float32]:
    out = np.empty(shape, np.float32)
    for start in range(0, len(out), _BLOCK):
        rng.standard_normal(out=out[start : start + _BLOCK], dtype=np.float32)
    return out


@contextlib.contextmanager
def opening(folder: Path, threads: int) -> Iterator[Call]:
    """The data of a run: headers, positives, the documents' identity."""
    from ttf.data.open_dataset import open_dataset

    config = _resolved(folder, {}, []).config.data

    def call() -> None:
        with open_dataset(config):
            pass

    yield call


@contextlib.contextmanager
def order(folder: Path, threads: int) -> Iterator[Call]:
    """Which rows a whole epoch takes, step by step, and the rows a mining round covers."""
    from ttf.data.order import Order

    with np.load(folder / "pairs.npz") as stored:
        pairs = len(stored["pos_train"])
    plan = Order(size=pairs, samples_per_step=1000, seed=0, fingerprint="growth")

    def call() -> None:
        for step in range(plan.steps_per_epoch):
            plan.rows(step)
        plan.rows_between(0, plan.steps_per_epoch)

    yield call


@contextlib.contextmanager
def one_order(folder: Path, threads: int) -> Iterator[Call]:
    """The rows of 100 steps, wherever in an epoch: what a restart has to find out."""
    from ttf.data.order import Order

    with np.load(folder / "pairs.npz") as stored:
        pairs = len(stored["pos_train"])
    plan = Order(size=pairs, samples_per_step=64, seed=0, fingerprint="growth")

    def call() -> None:
        for step in range(0, 100 * 1009, 1009):
            plan.rows(step % plan.steps_per_epoch)

    yield call


def mining(queries: int, k: int = 100) -> Callable[[Path, int], AbstractContextManager[Call]]:
    """A refresh of a frozen bank by the exact miner: files in, a table out; 0 queries: every
    training pair. The bank's copy was kept by the call that warms up."""

    @contextlib.contextmanager
    def probe(folder: Path, threads: int) -> Iterator[Call]:
        from ttf.contracts import MinerContext
        from ttf.data.sources import VectorRef
        from ttf.mining.job import MiningJob
        from ttf.mining.worker_main import Searcher

        with np.load(folder / "pairs.npz") as stored:
            asked = stored["X_train"][: queries or None]
        np.save(folder / "queries.npy", asked)
        context = MinerContext(threads=threads, seed=0, deterministic=True, budget_bytes=256 << 20)
        number = itertools.count()

        def call() -> None:
            job = MiningJob(
                bank=VectorRef(str(folder / "bank.npz"), "vectors", unit=True),
                queries=str(folder / "queries.npy"),
                k=k,
                miner="exact",
                context=context,
                out=str(folder / f"out-{next(number)}"),
                cache=str(folder / "cache"),
            )
            searcher = Searcher()
            searcher.do(job, print_nothing, count_nothing)
            searcher.release()

        yield call

    return probe


def print_nothing(text: str) -> None:
    """What a worker has to say is not measured."""


def count_nothing(done: int, total: int) -> None:
    """Nor how far it is."""


def step(
    tower: str, *sets: str, steps: int = 4, batch: int = 64
) -> Callable[[Path, int], AbstractContextManager[Call]]:
    """So many steps of the real loop, with its gather thread and its logs."""

    @contextlib.contextmanager
    def probe(folder: Path, threads: int) -> Iterator[Call]:
        with _session(folder, threads, {"tower": tower, "batch_size": batch}, sets) as session:
            from ttf import loop
            from ttf.rundir.metrics_log import MetricsLog
            from ttf.training.trainer import Trainer

            trainer = Trainer(session, MetricsLog(session.folder.metrics, None))

            begin = itertools.count(0, steps)

            def call() -> None:
                start = next(begin)
                trainer.loop.step = start
                with session.load(start, start + steps, None) as loader:
                    loop._train_window(trainer.loop, recorder, loader)

            with trainer.recording() as recorder:
                yield call

    return probe


@contextlib.contextmanager
def evaluation(folder: Path, threads: int) -> Iterator[Call]:
    """Exact metrics of the validation queries against the whole bank."""
    with _session(folder, threads, {"tower": "linear", "batch_size": 64}, ()) as session:
        from ttf.training.evaluation import evaluate

        def call() -> None:
            evaluate(
                session.parts.model,
                session.data.val,
                session.parts.documents,
                session.policy,
                session.decided.precision,
                64,
                (1, 10, 100),
            )

        yield call


@contextlib.contextmanager
def _session(
    folder: Path, threads: int, flags: dict[str, Any], sets: tuple[str, ...]
) -> Iterator[Any]:
    from ttf.machine import devices

    policy = devices.choose("cpu", {}, threads)
    devices.prepare(policy)
    from ttf.rundir.run_folder import RunFolder
    from ttf.text.progress import Reporter
    from ttf.training.session import open_session

    common = ["miner.negatives=0", "loss.memory_bank=1000", "memory.budget=256MiB"]
    resolved = _resolved(folder, flags, [*common, *sets])
    with open_session(resolved, RunFolder.new(folder / "run"), policy, Reporter()) as session:
        yield session


def _resolved(folder: Path, flags: dict[str, Any], sets: list[str]) -> Any:
    from ttf.config.resolve import resolve

    files = {"pairs": str(folder / "pairs.npz"), "bank": str(folder / "bank.npz")}
    return resolve(sets=sets, flags={**files, "epochs": 10_000, **flags})
