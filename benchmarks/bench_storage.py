"""Storage: opening 11 GB, rows at memory speed, a loader nobody waits for.

Every file is in the page cache, destinations are used again, one thread copies. Gathers are compared
with memcpy of as many bytes of the same file that lie in one piece, in two states: `same rows` (one
set of ids, in the processor's caches for both) and `new rows` (other rows each time, from memory;
a copy of short rows from random places, in C too, is slower there than a stream). The 11 GB file is
sparse: opening reads none of it.

    python benchmarks/bench_storage.py --folder /some/disk/storage
    python benchmarks/bench_storage.py --headspace gru
    python benchmarks/bench_storage.py --headspace linear
"""

from __future__ import annotations

import argparse
import functools
import statistics
import struct
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from headspace import headspace
from numpy.typing import NDArray

from ttf.data.vectors import empty_rows
from ttf.host.plugins import create_store, open_store
from ttf.tools.bench.paired import in_turns, ratio

ROWS = 512
TAILS: dict[str, tuple[int, ...]] = {"3 KB": (768,), "300 KB": (100, 768)}
COUNTS = {"3 KB": 200_000, "300 KB": 4_000}
CONTAINERS = ("npz", "zarr", "plain.zarr", "misaligned.npz")


def make(folder: Path, size: str) -> dict[str, Path]:
    """One array in four containers."""
    tail, count = TAILS[size], COUNTS[size]
    paths = {kind: folder / f"{size.replace(' ', '')}-{kind}" for kind in CONTAINERS}
    paths["npz"] = folder / f"{size.replace(' ', '')}.npz"
    paths["zarr"] = folder / f"{size.replace(' ', '')}.zarr"
    if not paths["npz"].exists():
        block = np.random.default_rng(0).standard_normal((count // 100, *tail)).astype(np.float32)
        for kind in ("npz", "zarr"):
            writer = create_store(str(paths[kind]))
            array = writer.array("vectors", (count, *tail), "float32")
            for number in range(100):
                array.append(block + np.float32(number))
            writer.commit()
        import zarr

        whole = np.load(paths["npz"])["vectors"]
        chunks = (max(1, (1 << 20) // whole[0].nbytes), *tail)
        group = zarr.open_group(str(paths["plain.zarr"]), mode="w")
        group.create_array("vectors", data=whole, chunks=chunks, compressors=None)
        np.savez(paths["misaligned.npz"], vectors=whole)
    return paths


def sparse(folder: Path) -> Path:
    """An NPZ of 35,904 x 100 x 768 float32 (11 GB) that takes no disk: its rows are holes."""
    path, shape = folder / "sparse.npz", (35904, 100, 768)
    if path.exists():
        return path
    text = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}"
    head = text.ljust(117) + "\n"
    npy = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode()
    size, name = len(npy) + int(np.prod(shape)) * 4, b"X_train.npy"
    extra = struct.pack("<HHQQ", 1, 16, size, size)
    local = struct.pack("<IHHHHHIIIHH", 0x04034B50, 45, 0, 0, 0, 33, 0, *[2**32 - 1] * 2, 11, 20)
    with path.open("wb") as file:
        file.write(local + name + extra + npy)
        file.seek(len(local + name + extra) + size)
        start = file.tell()
        fields = (0x02014B50, 45, 45, 0, 0, 0, 33, 0, *[2**32 - 1] * 2, 11, 20, 0, 0, 0, 0, 0)
        file.write(struct.pack("<IHHHHHHIIIHHHHHII", *fields) + name + extra)
        length = file.tell() - start
        file.write(struct.pack("<IQHHIIQQQQ", 0x06064B50, 44, 45, 45, 0, 0, 1, 1, length, start))
        file.write(struct.pack("<IIQI", 0x07064B50, 0, start + length, 1))
        file.write(struct.pack("<IHHHHIIH", 0x06054B50, 0, 0, 1, 1, length, 2**32 - 1, 0))
    return path


def opening(folder: Path) -> None:
    path = sparse(folder)
    took = []
    for _ in range(9):
        began = time.perf_counter()
        store = open_store(str(path))
        store.source("X_train").read(0, 1)
        took.append(1e3 * (time.perf_counter() - began))
        store.close()
    print(
        f"open {path.stat().st_size / 1e9:.2f} GB (sparse): median {statistics.median(took):.2f} ms, "
        f"first {took[0]:.1f} ms, worst {max(took):.1f} ms; bar 50 ms"
    )


def repeated(call: Callable[[], object], times: int) -> Callable[[], None]:
    def turn() -> None:
        for _ in range(times):
            call()

    return turn


class Draws:
    """Sets of row ids that take turns, or one set."""

    def __init__(self, count: int, sets: int) -> None:
        rng = np.random.default_rng(1)
        self.ids = [rng.choice(count, ROWS, replace=False) for _ in range(sets)]
        self._next = 0

    def __call__(self) -> NDArray[np.int64]:
        self._next = (self._next + 1) % len(self.ids)
        return self.ids[self._next]


def gathers(folder: Path, size: str, repeats: int) -> None:
    paths = make(folder, size)
    stores = {kind: open_store(str(path)) for kind, path in paths.items()}
    sources = {kind: store.source("vectors") for kind, store in stores.items()}
    count = COUNTS[size]
    out = empty_rows((ROWS, *TAILS[size]), "float32")
    whole = np.load(paths["npz"])["vectors"]
    for source in sources.values():
        for start in range(0, count, ROWS):  # warm: pages of the cache, and of this process
            np.testing.assert_array_equal(
                source.gather(np.arange(start, min(start + ROWS, count))),
                whole[start : start + ROWS],
            )
    del whole
    for state, sets in (("same rows", 1), ("new rows", 200 if size == "3 KB" else 8)):
        draws, times = Draws(count, sets), 100 if size == "3 KB" else 3
        arms: dict[str, Callable[[], object]] = {
            "memcpy": lambda draws=draws: _copy(sources["npz"], draws, out, count),  # type: ignore[misc]
        }
        for kind, source in sources.items():
            arms[kind] = lambda s=source, draws=draws: s.gather(draws(), out)  # type: ignore[misc]
        turns = {name: repeated(arm, times) for name, arm in arms.items()}
        seconds = {k: [s / times for s in v] for k, v in in_turns(turns, repeats, warm=2).items()}
        for name, values in seconds.items():
            ms = 1e3 * statistics.median(values)
            print(
                f"{size}, {state}, {name:15}{ms:9.3f} ms {out.nbytes / ms / 1e6:6.1f} GB/s, "
                f"of memcpy {ratio(seconds['memcpy'], values)}, "
                f"times the NPZ's {ratio(values, seconds['npz'])}",
                flush=True,
            )
    draws = Draws(count, 8)
    for kind in ("zarr", "plain.zarr"):
        against_zarr(f"{size}, {kind}", sources[kind], paths[kind], draws, out)
    began = time.perf_counter()
    np.load(paths["npz"])["vectors"][draws()]
    print(f"{size}: the same by numpy.load {1e3 * (time.perf_counter() - began):.0f} ms, once")
    for store in stores.values():
        store.close()


def against_zarr(
    what: str, source: Any, path: Path, draws: Draws, out: NDArray[np.float32]
) -> None:
    import zarr

    peer: Any = zarr.open_group(str(path), mode="r")["vectors"]
    arms = {"ours": lambda: source.gather(draws(), out), "zarr": lambda: peer.oindex[draws()]}
    seconds = in_turns(arms, 5)
    ms = 1e3 * statistics.median(seconds["zarr"])
    faster = ratio(seconds["zarr"], seconds["ours"])
    print(f"{what}: zarr-python {ms:.1f} ms, ours faster {faster}", flush=True)


def _copy(source: Any, draws: Draws, out: NDArray[Any], count: int) -> None:
    """As many bytes of the same file, in one piece, beginning somewhere else each time."""
    start = min(int(draws()[0]), count - ROWS)
    np.copyto(out, source.read(start, start + ROWS))


def trained(folder: Path, tower: str) -> Iterator[Any]:
    """A run as `ttf train` opens it, on a set of its own."""
    from ttf.config.resolve import resolve
    from ttf.data.synth import SynthShape, write_synth
    from ttf.rundir.run_folder import RunFolder
    from ttf.text.progress import Reporter
    from ttf.tools.bench.ours import policy_of
    from ttf.training.session import open_session

    length = 100 if tower == "gru" else 1
    paths = write_synth(folder / "data", SynthShape(pairs=4096 if length == 100 else 100_000, val=1, seq_len=length, dim=768, bank=60_000, seed=0))  # fmt: skip
    sets = ["device.name=cpu", f"tower.query.name={tower}", "miner.negatives=0"]
    sets += ["train.batch_size=32", "train.accumulate=4", "train.epochs=100000"]
    sets += ["evaluate.every=end", f"loss.memory_bank={50_000 if tower == 'gru' else 0}"]
    flags = {"pairs": str(paths["pairs"]), "bank": str(paths["bank"])}
    resolved = resolve(sets=sets, flags=flags)
    run = RunFolder.new(folder / "run")
    with open_session(resolved, run, policy_of(resolved.config), Reporter()) as session:
        yield session
    run.close()


def _step(session: Any, head: Any, micro_batches: Any) -> None:
    session.parts.stepper(head, micro_batches, 1e-4)


def stalls(tower: str, repeats: int) -> None:
    with tempfile.TemporaryDirectory(prefix="bench-storage-") as name:
        for session in trained(Path(name), tower):
            with session.load(0, session.decided.total_steps, None) as loader:
                found = headspace(
                    functools.partial(_step, session),
                    iter(loader),
                    steps_a_turn=4 if tower == "gru" else 100,
                    repeats=repeats,
                )
            ms = 1e3 * statistics.median(found.cached_s)
            print(f"loader stall, {tower}: {found}; a turn {ms:.0f} ms; bar 1%", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path("storage"))
    parser.add_argument("--headspace", choices=["gru", "linear"])
    parser.add_argument("--size", choices=[*TAILS], nargs="*", default=[*TAILS])
    parser.add_argument("--repeats", type=int, default=9)
    given = parser.parse_args()
    if given.headspace:
        stalls(given.headspace, given.repeats)
        return
    given.folder.mkdir(parents=True, exist_ok=True)
    opening(given.folder)
    for size in given.size:
        gathers(given.folder, size, given.repeats)


if __name__ == "__main__":
    main()
