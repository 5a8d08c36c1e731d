"""The storage benches: rows from files, and opening them. All from the page cache: they measure
software, not disks."""

from __future__ import annotations

from collections.abc import Callable, Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from ttf.machine.measured import gather_bytes
from ttf.tools.bench.arms import (
    BenchArm,
    OwnArm,
    Turns,
    Visit,
    bench,
    repeated,
    scratch_folder,
)
from ttf.tools.bench.sizes import Size

if TYPE_CHECKING:
    from ttf.contracts import VectorSource

_SHORT: Final = 768
_LONG: Final = 76_800  # Values of a row: one vector of 768 (3 KB), or 100 of them (300 KB).
_SETS: Final = 8  # draws of rows that take turns


Rows = Callable[[NDArray[np.int64]], NDArray[Any]]


@bench
def gather_npz(visit: Visit) -> Generator[Turns]:
    return _gathered(visit, "npz", "numpy", _numpy_rows)


@bench
def gather_zarr(visit: Visit) -> Generator[Turns]:
    return _gathered(visit, "zarr", "zarr-python", _zarr_rows)


@bench
def open_npz(visit: Visit) -> Generator[Turns]:
    from ttf.host.plugins import open_store

    path, stored_mb = _stored(visit.folder, "npz", _SHORT, visit.size)

    def open_ours() -> None:
        store = open_store(str(path))
        store.source("vectors").read(0, 1)
        store.close()

    def open_numpy() -> None:
        with np.load(path) as file:
            file["vectors"][:1]

    turn, count = repeated(open_ours, visit.size.turn_s)
    own = OwnArm(
        name="open-npz",
        turn=turn,
        work=count,
        unit="ms",
        shape=f"{stored_mb} MB",
        invert=True,
    )
    peer = BenchArm(name="numpy", turn=open_numpy, work=1, note="numpy.load reads the whole array")
    yield [own], [peer] if peer.name in visit.peers else []


def _gathered(
    visit: Visit, container: str, peer: str, open_peer: Callable[[Path], Rows]
) -> Generator[Turns]:
    from ttf.host.plugins import open_store

    size = visit.size
    for suffix, values in (("", _SHORT), ("-300k", _LONG)):
        name = f"gather-{container}{suffix}"
        with scratch_folder() as folder:
            visit.tell({"at": "making data"})
            path, _ = _stored(folder, container, values, size)
            store = open_store(str(path))
            source = store.source("vectors")
            visit.tell({"at": name})
            gigabytes = size.gather_rows * values * 4 / 1e9
            copied = gather_bytes(visit.ceilings)
            call = _drawn(_gather_into(source, values, size), source, size)
            turn, count = repeated(call, size.turn_s)
            own = OwnArm(
                name=name,
                turn=turn,
                work=count * gigabytes,
                unit="GB/s",
                shape=f"{size.gather_rows} rows of {4 * values / 1000:.0f} KB",
                ideal_s=None if copied is None else 1e9 / copied,
                ceiling="memory copy",
            )
            peers = []
            if peer in visit.peers:
                visit.tell({"at": peer})
                call = _drawn(open_peer(path), source, size)
                their_turn, their_count = repeated(call, size.turn_s)
                peers = [BenchArm(name=peer, turn=their_turn, work=their_count * gigabytes)]
            yield [own], peers
            store.close()


def _gather_into(source: VectorSource, values: int, size: Size) -> Rows:
    out = np.empty((size.gather_rows, values), np.float32)
    return lambda ids: source.gather(ids, out)


def _numpy_rows(path: Path) -> Rows:
    # numpy reads the whole array of an NPZ into memory.
    with np.load(path) as file:
        array = file["vectors"]
    return lambda ids: array[ids]


def _zarr_rows(path: Path) -> Rows:
    import zarr

    array: Any = zarr.open_group(path, mode="r")["vectors"]
    return lambda ids: np.asarray(array.oindex[ids])


def _drawn(gather: Rows, source: VectorSource, size: Size) -> Callable[[], None]:
    """A function that gathers the next of some random draws, the same draws for every arm."""
    rng = np.random.default_rng(0)
    draws = [
        rng.integers(0, source.shape[0], size.gather_rows, dtype=np.int64) for _ in range(_SETS)
    ]

    def call() -> None:
        draws.append(draws.pop(0))
        gather(draws[-1])

    return call


def _stored(folder: Path, container: str, values: int, size: Size) -> tuple[Path, int]:
    """A file of random rows, and its megabytes."""
    from ttf.host.plugins import create_store

    path = folder / f"rows.{container}"
    num_rows = max(size.gather_rows, size.files_mb * 1_000_000 // (4 * values))
    rng = np.random.default_rng(0)
    writer = create_store(str(path))
    array = writer.array("vectors", (num_rows, values), "float32")
    step = max(1, (1 << 22) // values)
    for start in range(0, num_rows, step):
        array.append(rng.random((min(step, num_rows - start), values), dtype=np.float32))
    writer.commit()
    return path, round(4e-6 * num_rows * values)
