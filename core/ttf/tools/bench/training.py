"""The training benches: our steps, the same steps by hand, and by two libraries."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Generator, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Literal

from ttf.machine.measured import gemm_flops
from ttf.tools.bench.arms import BenchArm, OwnArm, Turns, Visit, bench, lines_of
from ttf.tools.bench.results import Line
from ttf.tools.bench.sizes import Size
from ttf.tools.bench.work import GruWork, contrast_flops

Pool = Literal["mean", "last"]
Turning = Generator[Turns]
PRECISIONS: Final = ("fp32", "bf16")


@bench
def train_mean(visit: Visit) -> Turning:
    return _steps(visit, "train-mean", "mean", visit.size.length)


@bench
def train_last(visit: Visit) -> Turning:
    return _steps(visit, "train-last", "last", visit.size.length)


@bench
def train_l1(visit: Visit) -> Turning:
    return _steps(visit, "train-l1", "mean", 1)


@bench
def loader(visit: Visit) -> Turning:
    # With the fastest step, which waits for data most.
    prepare()
    from ttf.tools.bench.ours import Course, opened

    size = visit.size
    course = Course(pool="last", precision="bf16")
    paths = make_data(visit.folder, size, size.length)
    with opened(visit.folder, size, [course], paths) as (loop,):
        loop.keep(2)
        own = OwnArm(
            name="loader",
            turn=loop.step,
            work=loop.samples,
            unit="samples/s",
            shape=f"{_shape(size, size.length)}, bf16",
        )
        cached = BenchArm(
            name="cached-batches",
            turn=loop.replay,
            work=loop.samples,
            note="1: training never waits for the loader",
        )
        yield [own], [cached] if cached.name in visit.peers else []


def measured(
    pool: Pool,
    length: int,
    size: Size,
    wanted: Collection[str],
    ceilings: Mapping[str, Any],
    *,
    name: str = "train",
) -> list[Line]:
    """Ours in fp32 and bf16 and these peers, in this process, which loads torch only now."""
    return lines_of(
        lambda visit: _steps(visit, name, pool, length), size, wanted, ceilings, lambda news: None
    )


def _steps(visit: Visit, name: str, pool: Pool, length: int) -> Turning:
    prepare()
    from ttf.tools.bench.ours import Course, TorchSettings, opened

    size = visit.size
    courses = [Course(pool=pool, precision=precision) for precision in PRECISIONS]
    paths = make_data(visit.folder, size, length)
    by_hand = TorchSettings()  # as torch comes
    visit.tell({"at": name})
    with opened(visit.folder, size, courses, paths) as loops, contextlib.ExitStack() as stack:
        own_arms = [
            OwnArm(
                name=name if course.precision == "fp32" else f"{name}-{course.precision}",
                turn=loop.settings.around(loop.step),
                work=loop.samples,
                unit="samples/s",
                shape=f"{_shape(size, length)}, {course.precision}",
                ideal_s=_ideal_s(size, length, pool, course.precision, visit.ceilings),
                ceiling=f"matrix products in {course.precision}",
            )
            for course, loop in zip(courses, loops, strict=True)
        ]
        yield own_arms, list(_peers(visit, stack, pool, paths, by_hand))


def prepare() -> None:
    """Sets the environment of the device; call it before torch is loaded."""
    from ttf.machine import devices

    devices.prepare(devices.choose("cpu"))


def _peers(
    visit: Visit, stack: contextlib.ExitStack, pool: Pool, paths: Mapping[str, Path], by_hand: Any
) -> Iterator[BenchArm]:
    import torch

    from ttf.tools.bench import loops

    size, wanted, tell = visit.size, visit.peers, visit.tell
    threads = torch.get_num_threads()
    rows = rows_in_memory(paths, size)
    work = size.micro_batch * size.peer_micro_batches

    def arm(name: str, loop: Any) -> BenchArm:
        return BenchArm(
            name=name,
            turn=by_hand.around(lambda: loop.turn(size.peer_micro_batches)),
            work=work,
        )

    def tower() -> loops.PlainTower:
        return loops.PlainTower(size.dim, size.hidden, size.dim, pool)

    cut = {"micro_batch": size.micro_batch, "accumulate": size.accumulate}
    if "plain-torch" in wanted:
        contrast: torch.nn.Module = loops.Contrast(rows.bank_MD)
        yield arm("plain-torch", loops.HandLoop(tower(), contrast, rows, **cut))
    if "pytorch-metric-learning" in wanted:
        tell({"at": "pytorch-metric-learning"})
        contrast = loops.LibraryContrast(rows.bank_MD)
        yield arm("pytorch-metric-learning", loops.HandLoop(tower(), contrast, rows, **cut))
    if "lightning" in wanted:
        tell({"at": "lightning"})
        by_hand()
        contrast = loops.Contrast(rows.bank_MD)
        lightning = loops.LightningLoop(tower(), contrast, rows, threads=threads, **cut)
        stack.callback(lightning.close)
        yield arm("lightning", lightning)


def make_data(folder: Path, size: Size, length: int) -> dict[str, Path]:
    """A synthetic set on disk: enough pairs for some steps, documents for a full memory bank."""
    from ttf.data.synth import SynthShape, write_synth

    pairs = max(size.pairs, 2 * size.micro_batch * size.accumulate)
    return write_synth(
        folder / "data",
        SynthShape(
            pairs=pairs, val=1, seq_len=length, dim=size.dim, bank=size.memory_bank + pairs, seed=0
        ),
    )


def rows_in_memory(paths: Mapping[str, Path], size: Size) -> Any:
    """The same files, loaded as a loop by hand loads them."""
    import numpy as np
    import torch

    from ttf.tools.bench.loops import Rows

    with np.load(paths["pairs"]) as pairs, np.load(paths["bank"]) as bank:
        x, positives, documents = pairs["X_train"], pairs["pos_train"], bank["vectors"]
    return Rows(
        x=torch.from_numpy(x),
        y_ND=torch.nn.functional.normalize(torch.from_numpy(documents[positives]), dim=-1),
        bank_MD=torch.nn.functional.normalize(
            torch.from_numpy(np.ascontiguousarray(documents[: size.memory_bank])), dim=-1
        ),
    )


def work_of(size: Size, length: int, pool: str) -> GruWork:
    return GruWork(
        in_dim=size.dim,
        hidden=size.hidden,
        out_dim=size.dim,
        length=length,
        last_only=pool == "last",
    )


def _ideal_s(
    size: Size, length: int, pool: str, precision: str, ceilings: Mapping[str, Any]
) -> float | None:
    """Seconds of a sample's products at the ceiling of their precision."""
    best = gemm_flops(ceilings, precision)
    if best is None:
        return None
    candidates = size.memory_bank + size.micro_batch * size.accumulate
    needed = work_of(size, length, pool).training + contrast_flops(candidates, size.dim)
    return needed / best


def _shape(size: Size, length: int) -> str:
    return (
        f"B={size.micro_batch} x {size.accumulate}, L={length}, D={size.dim}, "
        f"BiGRU {size.hidden}, bank {size.memory_bank:,}"
    )
