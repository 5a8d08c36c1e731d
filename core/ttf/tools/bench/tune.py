"""`ttf bench --tune`: measures the best path for float32 products on this machine, and saves it.

A row is used only if it is clearly faster and as accurate as float32; otherwise the static table of
the device decides. Runs read the row when they start and never measure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from ttf.contracts import Progress
from ttf.machine import processor
from ttf.machine.measured import PATHS, Measured, Path32, TunedRow
from ttf.tools.bench.paired import in_turns, ratio

LEAST_GAIN: Final = 1.05
REPEATS: Final = 9
_CALL_FLOPS, _MOST_CALLS = 2e9, 1000  # the least work of a timed call: about 10 ms


@dataclass(frozen=True, kw_only=True)
class Shape:
    """A product (rows x inner) @ (inner x columns) of a step, and how often it is computed."""

    rows: int
    inner: int
    columns: int
    times: int

    def __str__(self) -> str:
        return f"{self.rows}x{self.inner}x{self.columns}"

    @property
    def flops(self) -> int:
        return 2 * self.rows * self.inner * self.columns


# Of the reference step: input product, recurrent products (alone and fused), rows of the bank.
SHAPES: Final = (
    Shape(rows=3200, inner=768, columns=3072, times=1),
    Shape(rows=32, inner=512, columns=1536, times=200),
    Shape(rows=128, inner=512, columns=1536, times=50),
    Shape(rows=2048, inner=768, columns=2048, times=1),
)


def tune(
    progress: Progress = lambda done, total: None,
    *,
    shapes: Sequence[Shape] = SHAPES,
    repeats: int = REPEATS,
) -> TunedRow:
    """Measures every path in turns on this process's threads; saves nothing (`save_row` does).

    Does not change torch's settings.
    """
    import torch

    ways = (*PATHS, "bf16") if processor.processor().bf16_unit else PATHS
    totals = {way: [0.0] * repeats for way in ways}
    measured: list[Measured] = []
    for at, shape in enumerate(shapes):

        def here(done: int, total: int, at: int = at) -> None:
            progress(at * total + done, len(shapes) * total)

        found = _measure(shape, ways, repeats, here)
        for line, seconds in found:
            measured.append(line)
            so_far = totals[line.path]
            totals[line.path] = [sum(pair) for pair in zip(so_far, seconds, strict=True)]
    choice, why = decide(totals, measured)
    fastest = min(PATHS, key=lambda name: sum(totals[name]))
    return TunedRow(
        fingerprint=processor.fingerprint(),
        date=datetime.now(UTC).date().isoformat(),
        torch=torch.__version__,
        threads=torch.get_num_threads(),
        float32=choice,
        why=why,
        measured=tuple(measured),
        bf16_gain=ratio(totals[fastest], totals["bf16"]).median if "bf16" in totals else None,
    )


def _measure(
    shape: Shape, ways: Sequence[str], repeats: int, progress: Progress
) -> list[tuple[Measured, list[float]]]:
    """Each way with the seconds a step spends in this product, round by round."""
    from ttf.machine.gemm import errors, factors, product, repeated

    a_RI, b_CI = factors(shape.rows, shape.inner, shape.columns)
    calls = min(_MOST_CALLS, max(1, round(_CALL_FLOPS / shape.flops)))
    arms = {way: repeated(product(way, a_RI, b_CI), calls) for way in ways}
    error = errors(ways, a_RI, b_CI)
    taken = in_turns(arms, repeats, progress=progress)
    return [
        (
            Measured(
                path=way,
                shape=str(shape),
                gflops=shape.flops * calls / min(seconds) / 1e9,
                error=error[way],
            ),
            [value / calls * shape.times for value in seconds],
        )
        for way, seconds in taken.items()
    ]


def decide(
    totals: Mapping[str, Sequence[float]], measured: Sequence[Measured]
) -> tuple[Path32 | None, str]:
    """The path to use, None if the static table decides; and the reason, in a sentence.

    `totals` holds the seconds of a step's products by path, round by round.
    """
    worst = {name: max(m.error for m in measured if m.path == name) for name in PATHS}
    accurate = [name for name in PATHS if worst[name] < processor.MOST_ERROR]
    if not accurate:
        return None, "on this machine, no path is as accurate as float32: " + _errors(worst)
    best = min(accurate, key=lambda name: sum(totals[name]))
    others = [name for name in accurate if name != best]
    if not others:
        return best, "the only path on this machine that is as accurate as float32: " + _errors(
            worst
        )
    gains = {name: ratio(totals[name], totals[best]) for name in others}
    least = min(gains.values(), key=lambda gain: gain.low)
    shown = (
        f"{best} computes the matrix products of a step {least} times as fast as {'/'.join(others)}"
    )
    if least.low <= LEAST_GAIN:
        return None, f"{shown}: not clearly more than {LEAST_GAIN} times"
    return best, f"{shown}, {_errors(worst)}"


def _errors(worst: Mapping[Path32, float]) -> str:
    return "relative error " + ", ".join(f"{name} {error:.1e}" for name, error in worst.items())
