"""Measures the best performance of this machine: matrix products, copies in memory, reads from a
file.

Each figure is the best of several repetitions, since disturbances only make a measurement slower.
Takes a few seconds; kept per machine (`ttf.machine.measured`); a run never measures.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Final

from ttf.contracts import Progress
from ttf.machine import processor
from ttf.machine.measured import BLOCKS, DIM, QUERIES, Ceilings, Figure
from ttf.machine.others_load import OthersLoad

BUDGET_S: Final = 8.0
# Of a training step: the input product of all steps, and one recurrent step, alone and fused.
SHAPES: Final = ((3200, 768, 3072), (32, 512, 1536), (128, 512, 1536))
_LEAST, _MOST = 3, 20
_FIGURE_S: Final = 0.08
_CALL_FLOPS, _MOST_CALLS = 1e9, 1000  # the least work of a timed call: some milliseconds


def measure(
    progress: Progress = lambda done, total: None, *, budget_s: float = BUDGET_S
) -> Ceilings:
    """Every figure, on this process's threads; saves nothing (`save_ceilings` does).

    After `budget_s`, the rest is measured once each. Does not change torch's settings.
    """
    import torch

    from ttf.tools.bench import ceilings_disk

    began, load = time.perf_counter(), OthersLoad()
    gemm: dict[str, dict[str, Figure]] = {}
    copy: dict[str, Figure] = {}
    parts = [*_gemm_parts(), *_copy_parts()]
    total = len(parts) + ceilings_disk.FIGURES
    for done, (group, name, work, unit, make) in enumerate(parts):
        hurry = time.perf_counter() - began > budget_s
        figure = best_of(make(), work, unit, least=1 if hurry else _LEAST)
        (copy if group == "copy" else gemm.setdefault(group, {}))[name] = figure
        progress(done + 1, total)
    read, notes = ceilings_disk.measure(lambda done, _: progress(len(parts) + done, total))
    return Ceilings(
        fingerprint=processor.fingerprint(),
        date=datetime.now(UTC).date().isoformat(),
        threads=torch.get_num_threads(),
        machine=processor.describe(),
        gemm=gemm,
        copy=copy,
        read=read,
        notes=notes,
        seconds=time.perf_counter() - began,
        others=load.share(),
    )


def best_of(
    call: Callable[[], object], work: float, unit: str, least: int = _LEAST, most: int = _MOST
) -> Figure:
    """The rate of a call that does `work` billions of something, after one warm-up call."""
    call()
    seconds: list[float] = []
    while len(seconds) < least or (len(seconds) < most and sum(seconds) < _FIGURE_S):
        began = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - began)
    return figure_of([work / one for one in seconds], unit)


def figure_of(rates: Sequence[float], unit: str) -> Figure:
    ordered = sorted(rates)
    return Figure(
        value=ordered[-1],
        median=ordered[len(ordered) // 2],
        worst=ordered[0],
        repeats=len(ordered),
        unit=unit,
    )


Make = Callable[[], Callable[[], object]]


def _gemm_parts() -> Iterator[tuple[str, str, float, str, Make]]:
    """Group, name, billions of operations, unit, and a function that makes the call."""
    from ttf.machine.gemm import FLOAT32, factors, product, repeated

    most = max(*BLOCKS["bf16"], *(columns for _, _, columns in SHAPES))
    a_RI, b_CI = factors(max(QUERIES, *(rows for rows, _, _ in SHAPES)), DIM, most)
    slow = not processor.processor().bf16_unit
    for way in (*FLOAT32, "bf16"):
        blocks = BLOCKS["bf16" if way == "bf16" else "fp32"]
        if way == "bf16" and slow:
            blocks = blocks[:1]
        shapes = [*SHAPES, *((QUERIES, DIM, block) for block in blocks)]
        for rows, inner, columns in shapes:
            flops = 2 * rows * inner * columns
            calls = min(_MOST_CALLS, max(1, round(_CALL_FLOPS / flops)))

            def make(
                way: str = way,
                rows: int = rows,
                inner: int = inner,
                columns: int = columns,
                calls: int = calls,
            ) -> Callable[[], object]:
                left = a_RI[:rows, :inner].contiguous()
                right = b_CI[:columns, :inner].contiguous()
                return repeated(product(way, left, right), calls)

            yield way, f"{rows}x{inner}x{columns}", flops * calls / 1e9, "GF/s", make


def _copy_parts() -> Iterator[tuple[str, str, float, str, Make]]:
    from ttf.tools.bench import ceilings_memory as memory

    work = memory.BYTES / 1e9
    yield "copy", "1 thread", work, "GB/s", lambda: memory.through(1)
    yield "copy", "2 threads", work, "GB/s", lambda: memory.through(2)
    yield "copy", "into cache", work, "GB/s", memory.into_cache
