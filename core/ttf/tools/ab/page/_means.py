"""Many curves of one arm: fewer points of each, and the mean of all where most of them are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from ttf.tools.report.charts.figure import Point

_GRID: Final = 80


def mean_curve(curves: Sequence[Sequence[Point]]) -> list[Point]:
    """At each x the mean of the curves that are there; only where more than half of them are.

    Curves that ended early would bend the mean by their leaving, not by what they measured.

    >>> mean_curve([[(0, 1.0), (2, 3.0)], [(0, 3.0), (2, 5.0)]])[-1]
    (2.0, 4.0)
    >>> mean_curve([])
    []
    """
    drawn = [curve for curve in curves if curve]
    if len(drawn) < 2:
        return []
    starts, ends = sorted(c[0][0] for c in drawn), sorted(c[-1][0] for c in drawn)
    grid = np.linspace(starts[len(drawn) // 2], ends[(len(drawn) - 1) // 2], _GRID)
    total, count = np.zeros(_GRID), np.zeros(_GRID)
    for curve in drawn:
        xs, ys = np.array([x for x, _ in curve]), np.array([y for _, y in curve])
        inside = (grid >= xs[0]) & (grid <= xs[-1])
        total[inside] += np.interp(grid[inside], xs, ys)
        count[inside] += 1
    there = count * 2 > len(drawn)
    return [
        (float(x), float(y)) for x, y in zip(grid[there], total[there] / count[there], strict=False)
    ]
