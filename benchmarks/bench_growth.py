"""How time and memory grow: with the bank, the pairs, the steps of a query, the width of a vector.

A point is a process: it sets itself up, calls once to warm up, then is timed and its anonymous
memory watched from outside (what it held before the calls is taken off). A series is fitted twice: the
slope in log-log, with 95% bounds (1: a straight line through nothing; below: a part does not grow),
and a straight line's R squared. `end` is the slope between the two largest sizes, where a constant
part hides least. Anything above 1.15 there, and above 1 in the bounds, is called out.

    python benchmarks/bench_growth.py --out measured-growth
"""

from __future__ import annotations

import argparse
import csv
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from growth_probes import Call, Size, evaluation, make, mining, one_order, opening, order, step
from plots import Line, log_log, save

from ttf.machine.memory.watch import tree_reader

Probe = Callable[[Path, int], AbstractContextManager[Call]]
SUSPECT = 1.15
_NOISE_BYTES = 4 << 20
"""Less than this of memory is not looked at for growth: one arena more or less."""
_LOOK_S = 0.004


@dataclass(frozen=True, kw_only=True)
class Axis:
    """What grows, and the probes that are asked how they take it."""

    name: str
    sizes: tuple[int, ...]
    fixed: Size
    probes: dict[str, Probe]

    def size(self, value: int) -> Size:
        return Size(**{**vars(self.fixed), self.name: value})


AXES = (
    Axis(
        name="bank",
        sizes=(50_000, 100_000, 250_000, 500_000, 1_000_000),
        fixed=Size(pairs=4096, dim=128),
        probes={
            "opening": opening,
            "exact mining, 2,048 queries": mining(2048),
            "evaluation, 128 queries": evaluation,
            "step of 64": step("linear", steps=8),
            "step of 64, full-bank loss": step("linear", "loss.negatives=bank", steps=2),
        },
    ),
    Axis(
        name="pairs",
        sizes=(10_000, 50_000, 200_000, 1_000_000),
        fixed=Size(bank=512),
        probes={
            "opening": opening,
            "order of an epoch": order,
            "order of 100 steps": one_order,
            "step of 64": step("linear", steps=8),
            "mining, all pairs, bank of 512": mining(0, k=5),
        },
    ),
    Axis(
        name="length",
        sizes=(1, 5, 20, 50, 100, 200),
        fixed=Size(pairs=512, dim=128),
        probes={"step of 32, BiGRU": step("gru", "tower.query.hidden=128", steps=2, batch=32)},
    ),
    Axis(
        name="dim",
        sizes=(64, 128, 256, 512, 1024),
        fixed=Size(bank=50_000, pairs=4096),
        probes={
            "exact mining, 2,048 queries": mining(2048),
            "step of 64, MLP of 512": step("mlp", "tower.query.hidden=512", steps=8),
            "step of 64, full-bank loss": step(
                "mlp", "tower.query.hidden=512", "loss.negatives=bank", steps=2
            ),
        },
    ),
)


@dataclass(frozen=True, kw_only=True)
class Point:
    axis: str
    probe: str
    value: int
    seconds: tuple[float, ...]
    bytes: int


@dataclass(frozen=True, kw_only=True)
class Fit:
    """y = c x^slope, and y = a + b x."""

    slope: float
    low: float
    high: float
    end: float
    line_r2: float

    @property
    def suspect(self) -> bool:
        return self.end > SUSPECT and self.low > 1


def fit(x: Sequence[float], y: Sequence[float], tail: tuple[float, float]) -> Fit:
    """All repetitions are points; `tail` is the median at the two largest sizes.

    >>> doubled = fit([1, 2, 4, 8], [2, 4, 8, 16], (8, 16))
    >>> round(doubled.slope, 6), round(doubled.line_r2, 6), doubled.suspect
    (1.0, 1.0, False)
    >>> fit([1, 2, 4, 8], [1, 4, 16, 64], (16, 64)).suspect
    True
    """
    logs_x, logs_y = np.log(x), np.log(y)
    design = np.stack([logs_x, np.ones_like(logs_x)], axis=1)
    (slope, start), *_ = np.linalg.lstsq(design, logs_y, rcond=None)
    left = logs_y - slope * logs_x - start
    error = np.sqrt(left @ left / max(len(x) - 2, 1) / ((logs_x - logs_x.mean()) ** 2).sum())
    before, last = sorted(set(x))[-2:]
    return Fit(
        slope=float(slope),
        low=float(slope - 2 * error),
        high=float(slope + 2 * error),
        end=float(np.log(tail[1] / tail[0]) / np.log(last / before)),
        line_r2=float(np.corrcoef(x, y)[0, 1] ** 2) if np.std(y) > 0 else 1.0,
    )


def child(request: dict[str, str | int]) -> None:
    """One point; speaks JSON lines: ready, then the seconds of each repetition."""
    axis = next(axis for axis in AXES if axis.name == request["axis"])
    probe = axis.probes[str(request["probe"])]
    with probe(Path(str(request["folder"])), int(request["threads"])) as call:
        print("ready", flush=True)
        sys.stdin.readline()
        call()
        seconds = []
        for _ in range(int(request["repeats"])):
            began = time.perf_counter()
            call()
            seconds.append(time.perf_counter() - began)
        print(json.dumps(seconds), flush=True)


def measured(
    axis: Axis, probe: str, value: int, folder: Path, repeats: int, threads: int
) -> Point | str:
    """A point, or why there is none."""
    request = {"axis": axis.name, "probe": probe, "folder": str(folder), "threads": threads}
    command = [sys.executable, __file__, "--child", json.dumps({**request, "repeats": repeats})]
    with (
        tempfile.TemporaryFile("w+") as errors,
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
        ) as process,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        ready = process.stdout.readline().strip() == "ready"
        before = peak = 0
        if ready:
            read = tree_reader(process.pid)
            before = peak = read().anon
            process.stdin.write("\n")
            process.stdin.flush()
            while process.poll() is None:
                try:
                    peak = max(peak, read().anon)
                except ProcessLookupError:
                    break
                time.sleep(_LOOK_S)
        words = process.stdout.read().strip().splitlines()
        if process.wait() or not words:
            errors.seek(0)
            return (errors.read().strip().splitlines() or ["no answer"])[-1]
    return Point(
        axis=axis.name,
        probe=probe,
        value=value,
        seconds=tuple(json.loads(words[-1])),
        bytes=max(peak - before, 1),
    )


def run(given: argparse.Namespace, scratch: Path) -> tuple[list[Point], list[str]]:
    end = time.monotonic() + given.budget_s
    points: list[Point] = []
    missing: list[str] = []
    for axis in AXES:
        if given.axes and axis.name not in given.axes:
            continue
        for value in axis.sizes:
            folder = scratch / f"{axis.name}-{value}"
            make(folder, axis.size(value))
            for probe in axis.probes:
                what = f"{axis.name} = {value:,}: {probe}"
                if time.monotonic() > end:
                    missing.append(f"left out, the budget is spent: {what}")
                    continue
                found = measured(axis, probe, value, folder, given.repeats, given.threads)
                shutil.rmtree(folder / "run", ignore_errors=True)
                if isinstance(found, str):
                    missing.append(f"not measured: {what}: {found}")
                    print(missing[-1], flush=True)
                    continue
                points.append(found)
                took = ", ".join(f"{1e3 * s:.1f}" for s in found.seconds)
                print(f"{what}: {took} ms, +{found.bytes / 1e6:.1f} MB", flush=True)
            shutil.rmtree(folder)
    return points, missing


def series(points: Sequence[Point]) -> dict[tuple[str, str], list[Point]]:
    out: dict[tuple[str, str], list[Point]] = {}
    for point in points:
        out.setdefault((point.axis, point.probe), []).append(point)
    return {key: sorted(found, key=lambda p: p.value) for key, found in out.items()}


def table(points: Sequence[Point]) -> str:
    lines = [
        "| grows | what | from, to | time | slope (95%) | end | line R2 | memory | slope | end | |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for (axis, probe), found in series(points).items():
        if len(found) < 3:
            continue
        first, last = found[0], found[-1]
        time_fit = fit(
            [p.value for p in found for _ in p.seconds],
            [s for p in found for s in p.seconds],
            (_ms(found[-2]), _ms(last)),
        )
        sizes, held = [p.value for p in found], [max(p.bytes, _NOISE_BYTES) for p in found]
        memory_fit = fit(sizes, held, (held[-2], held[-1]))
        words = [what for f, what in ((time_fit, "TIME"), (memory_fit, "MEMORY")) if f.suspect]
        lines.append(
            f"| {axis} | {probe} | {first.value:,}, {last.value:,} | {_ms(first):.1f}, "
            f"{_ms(last):.1f} ms | {time_fit.slope:.2f} ({time_fit.low:.2f} to {time_fit.high:.2f}) "
            f"| {time_fit.end:.2f} | {time_fit.line_r2:.4f} | {first.bytes / 1e6:.0f}, "
            f"{last.bytes / 1e6:.0f} MB | {memory_fit.slope:.2f} | {memory_fit.end:.2f} | "
            f"{'WORSE THAN A LINE: ' + ', '.join(words) if words else ''} |"
        )
    return "\n".join(lines)


def _ms(point: Point) -> float:
    return 1e3 * float(np.median(point.seconds))


def plot(points: Sequence[Point], path: Path) -> None:
    """Two figures an axis: time and memory, with a straight line to compare with."""
    figures = []
    for axis in dict.fromkeys(point.axis for point in points):
        here = {probe: found for (a, probe), found in series(points).items() if a == axis}
        for label, unit in (("time", "ms"), ("memory", "MB")):
            lines = [
                Line(
                    name=probe,
                    points=[
                        (p.value, _ms(p) if unit == "ms" else max(p.bytes / 1e6, 0.1))
                        for p in found
                    ],
                )
                for probe, found in here.items()
            ]
            highest = max(lines, key=lambda line: line.points[-1][1]).points[-1]
            low = min(x for line in lines for x, _ in line.points)
            straight = [(low, highest[1] * low / highest[0]), highest]
            lines.append(Line(name="proportional", points=straight, faint=True))
            figures.append(log_log(f"{label} against {axis}", lines, x_label=axis, y_label=unit))
    save(path, figures)


def write(points: Sequence[Point], path: Path) -> None:
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["axis", "probe", "value", "repeat", "seconds", "peak_bytes"])
        for point in points:
            for number, seconds in enumerate(point.seconds):
                name = [point.axis, point.probe, point.value, number]
                rows.writerow([*name, f"{seconds:.6f}", point.bytes])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("measured-growth"))
    parser.add_argument("--axes", nargs="*", choices=[axis.name for axis in AXES])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--budget-s", type=float, default=460.0)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child is not None:
        child(json.loads(given.child))
        return
    given.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=given.out) as scratch:
        points, missing = run(given, Path(scratch))
    write(points, given.out / "growth.csv")
    text = "\n".join([table(points), "", *missing])
    (given.out / "growth.md").write_text(text + "\n")
    print(text)
    if points:
        plot(points, given.out / "growth.svg")


if __name__ == "__main__":
    main()
