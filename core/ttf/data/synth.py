"""The synthetic set: queries that a GRU can learn to read and an average cannot.

Every step of a query is a noisy unit vector of some document. One step also has the marker, a fixed
direction added to it; the next step is the target. The marked step differs from query to query, so
the mean, the first, the last or any weighting by position finds the target no more often than any
other document of the query. Queries of length one are the noisy target, turned by a fixed rotation,
which a linear tower can undo.

Every block is a pure function of (seed, array, block).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from ttf.contracts import ArrayWriter, DType, Progress, VectorSource
from ttf.data.order import key
from ttf.data.vectors import from_float32, numpy_dtype, to_float32, unit_rows
from ttf.data.writing import array_bytes, make_room, sigterm_raised, writing
from ttf.errors import ConfigError
from ttf.host.plugins import open_store
from ttf.rundir.removing import remove_if_there

# Length of the noise added to a document before it is scaled back to length one.
NOISE: Final = 0.5
MARKER_STRENGTH: Final = 1.0  # Length of the marker added to a step.
# Angle of the rotation, in each of the planes, for queries of length one.
ROTATION: Final = np.pi / 2

_BLOCK_VALUES: Final = 1 << 21
_WORKERS: Final = 2
_BYTE_SPREAD: Final = float(np.sqrt((256**2 - 1) / 12))  # Standard deviation of a uniform byte.

_Report = Callable[[int], None]


@dataclass(frozen=True, kw_only=True)
class SynthShape:
    """Everything that determines the values; not how they are stored."""

    pairs: int
    val: int
    seq_len: int
    dim: int
    bank: int
    seed: int
    noise: float = NOISE
    marker_strength: float = MARKER_STRENGTH

    def check(self) -> None:
        least = {"pairs": 1, "val": 0, "seq_len": 1, "dim": 2, "bank": 2}
        wrong = [
            f"{name} is {getattr(self, name)}, but it must be at least {low}"
            for name, low in least.items()
            if getattr(self, name) < low
        ]
        if wrong:
            raise ConfigError("ttf cannot make the synthetic data set.", problems=wrong)

    def x_shape(self, rows: int) -> tuple[int, ...]:
        return (rows, self.dim) if self.seq_len == 1 else (rows, self.seq_len, self.dim)

    @property
    def block_rows(self) -> int:
        # The values depend on it, so it must not follow memory settings.
        return max(1, _BLOCK_VALUES // (self.seq_len * self.dim))


def write_synth(
    out_dir: Path,
    shape: SynthShape,
    *,
    container: Literal["npz", "zarr"] = "npz",
    dtype: DType = "float32",
    targets: bool = False,
    progress: Progress | None = None,
) -> dict[str, Path]:
    """Writes `pairs` and `bank` with bounded memory; `targets` adds Y_train and Y_val.

    Progress counts vectors. Raises StorageError before it starts if the disk is too small.
    """
    shape.check()
    paths = {name: Path(out_dir) / f"{name}.{container}" for name in ("pairs", "bank")}
    vectors = shape.bank + (shape.pairs + shape.val) * (shape.seq_len + targets)
    made = [p for p in (Path(out_dir), *Path(out_dir).parents) if not p.exists()]
    make_room(Path(out_dir), array_bytes((vectors, shape.dim), dtype))
    report = _counter(vectors, progress)
    with sigterm_raised(f"Stopped by SIGTERM; nothing was written to {out_dir}."):
        try:
            _write_bank(paths["bank"], shape, dtype, report)
            with _removed_on_failure(paths["bank"]):
                _write_pairs(paths["pairs"], paths["bank"], shape, dtype, targets, report)
        except BaseException:
            for folder in made:
                with contextlib.suppress(OSError):  # it holds another file: it stays
                    folder.rmdir()
            raise
    return paths


@contextlib.contextmanager
def _removed_on_failure(path: Path) -> Iterator[None]:
    # A bank without its pairs is useless.
    try:
        yield
    except BaseException:
        remove_if_there(path, path.parent)
        raise


def bank_block(shape: SynthShape, block: int) -> NDArray[np.float32]:
    """Documents: random directions."""
    rows = _span(shape.bank, _bank_rows(shape), block)
    drawn = _generator(shape, "bank", block).standard_normal(
        (len(rows), shape.dim), dtype=np.float32
    )
    return unit_rows(drawn, in_place=True)


def positives(shape: SynthShape, split: str, rows: int) -> NDArray[np.int64]:
    """The target of every query of a split."""
    return _generator(shape, f"pos_{split}", 0).integers(shape.bank, size=rows, dtype=np.int64)


def query_block(
    shape: SynthShape, split: str, targets: NDArray[np.int64], bank: VectorSource, block: int
) -> NDArray[np.float32]:
    target = targets[_span(len(targets), shape.block_rows, block)]
    draw = _generator(shape, f"X_{split}", block)
    if shape.seq_len == 1:
        turned = _rotated(to_float32(bank.gather(target), bank.dtype), shape)
        return _noisy(turned, draw, shape.noise)
    count, steps = len(target), shape.seq_len
    other = draw.integers(shape.bank - 1, size=(count, steps), dtype=np.int64)
    documents = other + (other >= target[:, None])
    marked = draw.integers(steps - 1, size=count)
    rows = np.arange(count)
    documents[rows, marked + 1] = target
    stored = to_float32(bank.gather(documents.reshape(-1)), bank.dtype)
    x = _noisy(stored.reshape(count, steps, shape.dim), draw, shape.noise)
    x[rows, marked] = unit_rows(x[rows, marked] + _marker(shape))
    return x


def _write_bank(path: Path, shape: SynthShape, dtype: DType, report: _Report) -> None:
    with writing(str(path)) as writer:
        array = writer.array("vectors", (shape.bank, shape.dim), dtype)
        blocks = -(-shape.bank // _bank_rows(shape))
        _append(array, blocks, partial(bank_block, shape), dtype, report, 1)


def _write_pairs(
    path: Path, bank_path: Path, shape: SynthShape, dtype: DType, targets: bool, report: _Report
) -> None:
    splits = {"train": shape.pairs} | ({"val": shape.val} if shape.val else {})
    store = open_store(str(bank_path))
    try:
        bank = store.source("vectors")
        with writing(str(path)) as writer:
            for split, rows in splits.items():
                pos = positives(shape, split, rows)
                array = writer.array(f"X_{split}", shape.x_shape(rows), dtype)
                make = partial(query_block, shape, split, pos, bank)
                _append(array, -(-rows // shape.block_rows), make, dtype, report, shape.seq_len)
                if targets:
                    y = writer.array(f"Y_{split}", (rows, shape.dim), dtype)
                    for start in range(0, rows, _bank_rows(shape)):
                        y.append(bank.gather(pos[start : start + _bank_rows(shape)]))
                        report(min(_bank_rows(shape), rows - start))
            for split, rows in splits.items():
                writer.array(f"pos_{split}", (rows,), "int64").append(positives(shape, split, rows))
    finally:
        store.close()


def _append(
    array: ArrayWriter,
    blocks: int,
    make: Callable[[int], NDArray[np.float32]],
    dtype: DType,
    report: _Report,
    vectors_per_row: int,
) -> None:
    # Makes blocks on both cores while the previous block is written.
    for rows in _ahead(blocks, lambda b: from_float32(make(b), dtype).astype(numpy_dtype(dtype))):
        array.append(rows)
        report(len(rows) * vectors_per_row)


def _ahead(
    blocks: int, make: Callable[[int], NDArray[np.generic]]
) -> Iterator[NDArray[np.generic]]:
    with ThreadPoolExecutor(_WORKERS) as pool:
        waiting: list[Future[NDArray[np.generic]]] = []
        for block in range(blocks):
            waiting.append(pool.submit(make, block))
            if len(waiting) > _WORKERS:
                yield waiting.pop(0).result()
        for future in waiting:
            yield future.result()


def _noisy(
    vectors: NDArray[np.float32], draw: np.random.Generator, noise: float
) -> NDArray[np.float32]:
    """Unit vectors with noise of the given length, scaled to length one."""
    words = draw.integers(2**64, size=-(-vectors.size // 8), dtype=np.uint64).astype("<u8")
    levels = words.view(np.int8)[: vectors.size].reshape(vectors.shape)
    # Uniform bytes: a tenth of the time of normal numbers, and 11 GB are at stake.
    scale = noise / np.sqrt(vectors.shape[-1]) / _BYTE_SPREAD
    out = np.multiply(levels, np.float32(scale), dtype=np.float32)
    out += np.float32(scale / 2)
    out += vectors
    return unit_rows(out, in_place=True)


def _marker(shape: SynthShape) -> NDArray[np.float32]:
    drawn = _generator(shape, "marker", 0).standard_normal((1, shape.dim), dtype=np.float32)
    return unit_rows(drawn) * np.float32(shape.marker_strength)


def _rotated(vectors: NDArray[np.float32], shape: SynthShape) -> NDArray[np.float32]:
    """Rotates in dim/2 planes, each of two random axes; exact and the same on every machine."""
    axes = _generator(shape, "rotation", 0).permutation(shape.dim)
    half = shape.dim // 2
    first, second = axes[:half], axes[half : 2 * half]
    cosine, sine = np.float32(np.cos(ROTATION)), np.float32(np.sin(ROTATION))
    out = vectors.copy()
    out[:, first] = cosine * vectors[:, first] - sine * vectors[:, second]
    out[:, second] = sine * vectors[:, first] + cosine * vectors[:, second]
    return out


def _generator(shape: SynthShape, array: str, block: int) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(key=key(shape.seed, f"synth {array}", block)))


def _bank_rows(shape: SynthShape) -> int:
    return max(1, _BLOCK_VALUES // shape.dim)


def _span(rows: int, per_block: int, block: int) -> NDArray[np.int64]:
    return np.arange(block * per_block, min((block + 1) * per_block, rows))


def _counter(total: int, progress: Progress | None) -> _Report:
    done = 0

    def report(count: int) -> None:
        nonlocal done
        done += count
        if progress is not None:
            progress(done, total)

    return report
