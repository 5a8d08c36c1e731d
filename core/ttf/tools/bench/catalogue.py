"""What `ttf bench` measures: names, what each is about, and with whom it is compared."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

Tell = Callable[[Mapping[str, Any]], None]
Work = Callable[[Mapping[str, Any], Tell], Mapping[str, Any]]


@dataclass(frozen=True, kw_only=True)
class Bench:
    """One bench, done in a process of its own."""

    name: str
    title: str
    work: str
    """Where its code is, as "module:function"."""
    peers: tuple[str, ...]
    deadline_s: float = 300.0


_TRAINING: Final = "ttf.tools.bench.training"
_STORAGE: Final = "ttf.tools.bench.storage"
BENCHES: Final[dict[str, Bench]] = {
    bench.name: bench
    for bench in (
        Bench(
            name="train-mean",
            title="training, BiGRU over sequences, mean of all steps; fp32 and bf16",
            work=f"{_TRAINING}:train_mean",
            peers=("plain-torch", "pytorch-metric-learning", "lightning"),
        ),
        Bench(
            name="train-last",
            title="the same, the last step's output",
            work=f"{_TRAINING}:train_last",
            peers=("plain-torch",),
        ),
        Bench(
            name="train-l1",
            title="the same on single vectors",
            work=f"{_TRAINING}:train_l1",
            peers=("plain-torch",),
        ),
        Bench(
            name="loader",
            title="training from files against batches that are in memory already",
            work="ttf.tools.bench.training:loader",
            peers=("cached-batches",),
        ),
        Bench(
            name="mine-exact",
            title="exact top-k of every query in the whole bank",
            work="ttf.tools.bench.mining:mine_exact",
            peers=("faiss-flat", "faiss-hnsw", "hnswlib"),
        ),
        Bench(
            name="gather-npz",
            title="random rows of an NPZ, short and long ones",
            work=f"{_STORAGE}:gather_npz",
            peers=("numpy",),
        ),
        Bench(
            name="gather-zarr",
            title="random rows of an uncompressed Zarr, short and long ones",
            work=f"{_STORAGE}:gather_zarr",
            peers=("zarr-python",),
        ),
        Bench(
            name="open-npz",
            title="opening an NPZ and reading one row",
            work=f"{_STORAGE}:open_npz",
            peers=("numpy",),
        ),
    )
}
CEILINGS: Final = Bench(
    name="ceilings",
    title="what this machine can do",
    work="ttf.tools.bench.machine_tasks:measure_ceilings",
    peers=(),
)
TUNE: Final = Bench(
    name="tune",
    title="the fastest float32 product that is exact enough here",
    work="ttf.tools.bench.machine_tasks:tune_machine",
    peers=(),
)
