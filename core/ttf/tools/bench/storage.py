"""The storage benches: rows from files, and opening them. All from the page cache: what is measured
is software, not disks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from ttf.machine.measured import gather_bytes
from ttf.tools.bench.arms import BenchArm, OwnArm, measured_lines, repeated, scratch_folder
from ttf.tools.bench.catalogue import Tell
from ttf.tools.bench.results import Line
from ttf.tools.bench.sizes import SIZES, Size

if TYPE_CHECKING:
    from ttf.contracts import VectorSource

_SHORT: Final = 768
_LONG: Final = 76_800
"""Values of a row: one vector of 768 (3 KB), or 100 of them (300 KB)."""
_SETS: Final = 8
"""Draws of rows that take turns."""


def gather_npz(request: Mapping[str, Any], tell: Tell) -> dict[str, Any]:
    return _gathered("gather-npz", "npz", "numpy", _numpy_rows, request, tell)


def gather_zarr(request: Mapping[str, Any], tell: Tell) -> dict[str, Any]:
    return _gathered("gather-zarr", "zarr", "zarr-python", _zarr_rows, request, tell)


def open_npz(request: Mapping[str, Any], tell: Tell) -> dict[str, Any]:
    from ttf.host.plugins import open_store

    size = SIZES[request["size"]]

    def open_ours() -> None:
        store = open_store(str(path))
        store.source("vectors").read(0, 1)
        store.close()

    def open_numpy() -> None:
        with np.load(path) as file:
            file["vectors"][:1]

    with scratch_folder() as folder:
        tell({"at": "making data"})
        path, stored_mb = _stored(folder, "npz", _SHORT, size)
        turn, count = repeated(open_ours, size.turn_s)
        peers = []
        if "numpy" in request["peers"]:
            peers = [
                BenchArm(name="numpy", turn=open_numpy, work=1, note="numpy.load reads all of it")
            ]
        own = OwnArm(
            name="open-npz",
            turn=turn,
            work=count,
            unit="ms",
            shape=f"{stored_mb} MB",
            invert=True,
        )
        lines = measured_lines([own], peers, size.repeats, tell)
    return {"lines": [line.to_json() for line in lines]}


Rows = Callable[[Path], Callable[[NDArray[np.int64]], NDArray[Any]]]


def _gathered(
    name: str, container: str, peer: str, open_peer: Rows, request: Mapping[str, Any], tell: Tell
) -> dict[str, Any]:
    lines: list[Line] = []
    for suffix, values in (("", _SHORT), ("-300k", _LONG)):
        lines += _rows(name + suffix, container, peer, open_peer, values, request, tell)
    return {"lines": [line.to_json() for line in lines]}


def _rows(
    name: str,
    container: str,
    peer: str,
    open_peer: Rows,
    values: int,
    request: Mapping[str, Any],
    tell: Tell,
) -> list[Line]:
    from ttf.host.plugins import open_store

    size = SIZES[request["size"]]
    with scratch_folder() as folder:
        tell({"at": "making data"})
        path, _ = _stored(folder, container, values, size)
        store = open_store(str(path))
        source = store.source("vectors")
        tell({"at": name})
        gigabytes = size.gather_rows * values * 4 / 1e9
        copied = gather_bytes(request["ceilings"])
        turn, count = repeated(
            _drawn(_gather_into(source, values, size), source, size), size.turn_s
        )
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
        if peer in request["peers"]:
            tell({"at": peer})
            call = _drawn(open_peer(path), source, size)
            their_turn, their_count = repeated(call, size.turn_s)
            peers = [BenchArm(name=peer, turn=their_turn, work=their_count * gigabytes)]
        lines = measured_lines([own], peers, size.repeats, tell)
        store.close()
    return lines


def _gather_into(
    source: VectorSource, values: int, size: Size
) -> Callable[[NDArray[np.int64]], NDArray[Any]]:
    out = np.empty((size.gather_rows, values), np.float32)
    return lambda ids: source.gather(ids, out)


def _numpy_rows(path: Path) -> Callable[[NDArray[np.int64]], NDArray[Any]]:
    """Of the whole array in memory, which is what numpy makes of an NPZ."""
    with np.load(path) as file:
        array = file["vectors"]
    return lambda ids: array[ids]


def _zarr_rows(path: Path) -> Callable[[NDArray[np.int64]], NDArray[Any]]:
    import zarr

    array: Any = zarr.open_group(path, mode="r")["vectors"]
    return lambda ids: np.asarray(array.oindex[ids])


def _drawn(
    gather: Callable[[NDArray[np.int64]], object], source: VectorSource, size: Size
) -> Callable[[], None]:
    """The next of some random draws of rows, the same ones for everybody."""
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
