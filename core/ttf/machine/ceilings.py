"""What this machine can do at best: products of matrices, copies in memory, reads from a file.

Each figure is the best of several repetitions: what disturbs a measurement only makes it slower.
Measured in a few seconds, kept per machine, and never read by a run.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal

from ttf.contracts import Progress
from ttf.machine import processor

FILE: Final = "ceilings.json"
BUDGET_S: Final = 8.0
QUERIES: Final = 2048
DIM: Final = 768
BLOCKS: Final[Mapping[str, Sequence[int]]] = {
    "fp32": (512, 2048, 8192),
    "bf16": (512, 1024, 2048, 4096, 8192, 16_384, 32_768),
}
"""Rows of the bank that 2,048 queries are multiplied with at a time."""
SHAPES: Final = ((3200, 768, 3072), (32, 512, 1536), (128, 512, 1536))
"""Of a training step: the input product of all steps, and one recurrent step, alone and fused."""
_LEAST, _MOST = 3, 20
_FIGURE_S: Final = 0.08
_CALL_FLOPS, _MOST_CALLS = 1e9, 1000
"""What a timed call computes at least: some milliseconds."""

PrecisionName = Literal["fp32", "bf16"]


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A rate: the best of `repeats`, with the median and the worst to show how noisy it was."""

    value: float
    median: float
    worst: float
    repeats: int
    unit: str

    def __str__(self) -> str:
        return f"{self.value:,.3g} {self.unit} (median {self.median:,.3g}, n = {self.repeats})"


@dataclass(frozen=True, kw_only=True)
class Ceilings:
    """A machine's figures."""

    fingerprint: str
    date: str
    threads: int
    machine: Mapping[str, Any]
    gemm: Mapping[str, Mapping[str, Figure]]
    """By way ("highest", "medium", "numpy": float32; "bf16") and shape ("2048x768x512"), GF/s."""
    copy: Mapping[str, Figure]
    """Bytes copied: "1 thread", "2 threads" (both through memory), "into cache": from memory into
    a small buffer that is used again, as a gather does. GB/s."""
    read: Mapping[str, Figure] = field(default_factory=dict)
    """From a file: "cold" and "hot", each "sequential" or by random pieces of so many bytes
    ("cold 4096"), one at a time. GB/s. Empty where the disk was too full for it."""
    notes: tuple[str, ...] = ()
    seconds: float = 0.0
    """What measuring took."""

    @property
    def stale(self) -> bool:
        """Whether they are those of another machine than this process runs on."""
        return self.fingerprint != processor.fingerprint()

    def best(self, precision: PrecisionName) -> tuple[str, str, Figure]:
        """The ceiling of a precision: the best block's product, its way and its shape."""
        blocks = {f"{QUERIES}x{DIM}x{block}" for block in BLOCKS[precision]}
        ways = ("bf16",) if precision == "bf16" else tuple(w for w in self.gemm if w != "bf16")
        found = [
            (way, shape, figure)
            for way in ways
            for shape, figure in self.gemm[way].items()
            if shape in blocks
        ]
        return max(found, key=lambda one: one[2].value)

    def to_json(self) -> dict[str, Any]:
        best: dict[PrecisionName, tuple[str, str, Figure]] = {
            "fp32": self.best("fp32"),
            "bf16": self.best("bf16"),
        }
        return asdict(self) | {
            "best": {
                name: {"way": way, "shape": shape, "gflops": figure.value}
                for name, (way, shape, figure) in best.items()
            }
        }

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Ceilings:
        """Raises ValueError, LookupError or TypeError where they are none."""
        values = {one.name: found[one.name] for one in fields(cls)}
        values["gemm"] = {way: _figures(shapes) for way, shapes in values["gemm"].items()}
        values["copy"], values["read"] = _figures(values["copy"]), _figures(values["read"])
        values["notes"] = tuple(values["notes"])
        return cls(**values)


def _figures(found: Mapping[str, Any]) -> dict[str, Figure]:
    return {name: Figure(**figure) for name, figure in found.items()}


# --- keeping ---------------------------------------------------------------------------------


def path() -> Path:
    return processor.machine_dir() / FILE


def load() -> Ceilings | None:
    """Those kept for this machine; None where there are none, or none that can be read: they are
    measured anew then."""
    try:
        return Ceilings.from_json(json.loads(path().read_text(encoding="utf-8")))
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return None


def save(ceilings: Ceilings) -> Path:
    """Raises StorageError."""
    from ttf.rundir.durable import write_json

    file = path()
    file.parent.mkdir(parents=True, exist_ok=True)
    write_json(file, ceilings.to_json(), "machine")
    return file


# --- measuring -------------------------------------------------------------------------------

Part = tuple[str, str, str]
"""A group of figures, and the name of one in it: ("gemm", "medium", "32x512x1536")."""


def measure(
    progress: Progress = lambda done, total: None, *, budget_s: float = BUDGET_S
) -> Ceilings:
    """Every figure, on this process's threads; saves nothing (`save` does).

    Past `budget_s` what is left is measured once each. Leaves torch's settings as they were.
    """
    import torch

    from ttf.machine import ceilings_disk

    began = time.perf_counter()
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
    )


def best_of(
    call: Callable[[], object], work: float, unit: str, least: int = _LEAST, most: int = _MOST
) -> Figure:
    """The rate of a call that does `work` billions of something; one call before does not count."""
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
    """Group, name, billions of operations, unit, and what makes the call."""
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
    from ttf.machine import ceilings_memory as memory

    work = memory.BYTES / 1e9
    yield "copy", "1 thread", work, "GB/s", lambda: memory.through(1)
    yield "copy", "2 threads", work, "GB/s", lambda: memory.through(2)
    yield "copy", "into cache", work, "GB/s", memory.into_cache
