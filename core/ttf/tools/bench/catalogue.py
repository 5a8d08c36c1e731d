"""The benches of `ttf bench`: names, titles and peers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

Tell = Callable[[Mapping[str, Any]], None]
Work = Callable[[Mapping[str, Any], Tell], Mapping[str, Any]]


@dataclass(frozen=True)
class Bench:
    """One bench, done in its own process."""

    name: str
    title: str
    work: str  # "module:function"
    peers: tuple[str, ...] = ()
    deadline_s: float = 300.0


_TRAINING: Final = "ttf.tools.bench.training"
_STORAGE: Final = "ttf.tools.bench.storage"
_MINING: Final = "ttf.tools.bench.mining"
_MACHINE: Final = "ttf.tools.bench.machine_tasks"
_BENCHES: Final = (
    Bench(
        "train-mean",
        "training, BiGRU on sequences, mean of all steps; fp32 and bf16",
        f"{_TRAINING}:train_mean",
        ("plain-torch", "pytorch-metric-learning", "lightning"),
    ),
    Bench(
        "train-last",
        "the same, with the output of the last step",
        f"{_TRAINING}:train_last",
        ("plain-torch",),
    ),
    Bench("train-l1", "the same with single vectors", f"{_TRAINING}:train_l1", ("plain-torch",)),
    Bench(
        "loader",
        "training from files, compared with batches that are already in memory",
        f"{_TRAINING}:loader",
        ("cached-batches",),
    ),
    Bench(
        "mine-exact",
        "exact top-k of all queries in the whole bank",
        f"{_MINING}:mine_exact",
        ("faiss-flat", "faiss-hnsw", "hnswlib"),
    ),
    Bench(
        "gather-npz",
        "random rows of an NPZ, short rows and long rows",
        f"{_STORAGE}:gather_npz",
        ("numpy",),
    ),
    Bench(
        "gather-zarr",
        "random rows of an uncompressed Zarr, short rows and long rows",
        f"{_STORAGE}:gather_zarr",
        ("zarr-python",),
    ),
    Bench(
        "cache",
        "simulated caches of a trainable table: hit rates of five policies on three orders",
        "ttf.tools.bench.cache:work",
    ),
    Bench("open-npz", "opening an NPZ and reading one row", f"{_STORAGE}:open_npz", ("numpy",)),
)
BENCHES: Final = {bench.name: bench for bench in _BENCHES}
CEILINGS: Final = Bench("ceilings", "what this machine can do", f"{_MACHINE}:measure_ceilings")
TUNE: Final = Bench(
    "tune",
    "the fastest float32 matrix product with enough accuracy on this machine",
    f"{_MACHINE}:tune_machine",
)
