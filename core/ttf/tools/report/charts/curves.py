"""Points of a curve: fewer, smoother, or the corners of steps."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from ttf.tools.report.charts.figure import Point

MOST_POINTS = 400


def thin(points: Sequence[Point], most: int = MOST_POINTS) -> list[Point]:
    """At most `most` points: means of equally many neighbours each.

    >>> thin([(0, 1.0), (1, 3.0), (2, 5.0), (3, 7.0)], 2)
    [(0.5, 2.0), (2.5, 6.0)]
    """
    if len(points) <= most:
        return list(points)
    groups = _neighbours(points, most)
    return [(sum(x for x, _ in g) / len(g), sum(y for _, y in g) / len(g)) for g in groups]


def highest(points: Sequence[Point], most: int = MOST_POINTS) -> list[Point]:
    """At most `most` points, of each group of neighbours the highest: no peak is lost.

    >>> highest([(0, 1.0), (1, 3.0), (2, 5.0), (3, 2.0)], 2)
    [(1, 3.0), (2, 5.0)]
    """
    if len(points) <= most:
        return list(points)
    return [max(group, key=lambda p: p[1]) for group in _neighbours(points, most)]


def _neighbours(points: Sequence[Point], groups: int) -> Iterator[Sequence[Point]]:
    bounds = [round(i * len(points) / groups) for i in range(groups + 1)]
    return (points[a:b] for a, b in itertools.pairwise(bounds))


def smoothed(points: Sequence[Point], share: float = 0.8) -> list[Point]:
    # An exponential average without the bias of its first value.
    out: list[Point] = []
    total = weight = 0.0
    for x, y in points:
        total, weight = share * total + y, share * weight + 1
        out.append((x, total / weight))
    return out


def stepped(points: Sequence[tuple[float, ...]], until: float) -> list[tuple[float, ...]]:
    """A curve that keeps its values up to the next point, as corners; it goes on to `until`.

    >>> stepped([(0, 1.0), (5, 0.5)], 9)
    [(0, 1.0), (5, 1.0), (5, 0.5), (9, 0.5)]
    """
    out = list(points[:1])
    for point in points[1:]:
        out += [(point[0], *out[-1][1:]), point]
    if out and out[-1][0] < until:
        out.append((until, *out[-1][1:]))
    return out
