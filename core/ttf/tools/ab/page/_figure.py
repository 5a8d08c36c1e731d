"""Drawings of several arms: lines with bands, one dot a repeat. Built of the house's chart pieces."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

from ttf.tools.ab.page._arms import Arm
from ttf.tools.report.page._chart import (
    BOTTOM,
    HEIGHT,
    RIGHT,
    WIDTH,
    Place,
    Point,
    ticks,
    x_tick,
    y_tick,
)

_SPREAD: Final = 0.34
"""Of an arm's column: how far dots step aside so that none hides another."""
_FEWEST_FOR_A_MEDIAN: Final = 3
_DOT: Final = 7.4
"""Pixels that a dot takes."""


@dataclass(frozen=True, kw_only=True)
class Curve:
    """A line of an arm; `faint`: of one repeat, behind the arm's own."""

    arm: Arm
    points: Sequence[Point]
    faint: bool = False
    spots: bool = False
    band: Sequence[tuple[float, float, float]] = ()
    """(x, low, high)"""
    notches: Sequence[Point] = ()


@dataclass(frozen=True, kw_only=True)
class Axes:
    """What the axes say; `y`: the least that the vertical one spans."""

    x_label: str
    x_text: Callable[[float], str]
    y_text: Callable[[float], str]
    y: tuple[float, float] | None = None
    x_from_zero: bool = True


def curves(title: str, lines: Sequence[Curve], axes: Axes, *, told: str, under: str = "") -> str:
    """A figure, or '' where there is nothing to draw. `told`: its content in words."""
    points = [p for line in lines for p in line.points]
    if not points:
        return ""
    ys = [y for _, y in points] + [y for line in lines for _, *both in line.band for y in both]
    ys += axes.y or ()
    xs = [x for x, _ in points]
    low_x = 0.0 if axes.x_from_zero else min(xs)
    y_ticks = ticks(min(ys), max(ys))
    place = Place(x=(low_x, max(xs)), y=(y_ticks[0], y_ticks[-1]))
    ordered = sorted(lines, key=lambda line: not line.faint)
    body = [
        *(y_tick(place, y, axes.y_text(y)) for y in y_ticks),
        *(x_tick(place, x, axes.x_text(x)) for x in ticks(*place.x)),
        *(_band(place, line) for line in lines if line.band),
        *(_line(place, line) for line in ordered),
        _x_label(axes.x_label),
    ]
    drawn = {line.arm.place: line.arm for line in lines if line.points}
    return figure(title, [drawn[k] for k in sorted(drawn)], "".join(body), told=told, under=under)


def dots(
    title: str,
    values: Mapping[Arm, Mapping[int, float]],
    y_text: Callable[[float], str],
    *,
    told: str,
    under: str,
    name_of: Callable[[Arm, int], str],
    hollow: Callable[[Arm, int], bool],
) -> str:
    """A dot a repeat, in a column an arm; what ran in one block is joined by a faint line."""
    found = [y for blocks in values.values() for y in blocks.values()]
    if not found:
        return ""
    y_ticks = ticks(min(found), max(found))
    if len(y_ticks) == 1:  # all alike
        y_ticks = [y_ticks[0] - 1, y_ticks[0], y_ticks[0] + 1]
    arms = list(values)
    place = Place(x=(-0.5, len(arms) - 0.5), y=(y_ticks[0], y_ticks[-1]))
    at = {
        (arm.place, block): spot
        for column, arm in enumerate(arms)
        for block, spot in _aside(place, column, values[arm], len(arms)).items()
    }
    body = [y_tick(place, y, y_text(y)) for y in y_ticks]
    for left, right in itertools.pairwise(arms):
        body += [
            _joint(at[left.place, block], at[right.place, block])
            for block in values[left]
            if block in values[right]
        ]
    for column, arm in enumerate(arms):
        body.append(_median(place, column, list(values[arm].values())))
        for block in values[arm]:
            name, x_y = name_of(arm, block), at[arm.place, block]
            body.append(arm.spot(*x_y, name, hollow=hollow(arm, block)))
        body.append(_column_name(place.across(column), arm.letter))
        if not values[arm]:
            body.append(_nothing(place.across(column)))
    return figure(title, arms, "".join(body), told=told, under=under)


def figure(title: str, arms: Iterable[Arm], body: str, *, told: str, under: str = "") -> str:
    """A drawing with its title and a legend of arms; `told` is for who cannot see it."""
    keys = "".join(arm.key for arm in arms)
    label = escape(f"{title}. {told}" if told else title)
    note = f"<p>{escape(under)}</p>" if under else ""
    return (
        f"<figure><figcaption><b>{escape(title)}</b>{keys}</figcaption>"
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}">{body}</svg>'
        f"{note}</figure>"
    )


def stepped(points: Sequence[Point], until: float) -> list[Point]:
    """A curve that keeps its value up to the next point, as corners; it goes on to `until`.

    >>> stepped([(0, 1.0), (5, 0.5)], 9)
    [(0, 1.0), (5, 1.0), (5, 0.5), (9, 0.5)]
    """
    out = list(points[:1])
    for x, y in points[1:]:
        out += [(x, out[-1][1]), (x, y)]
    if out and out[-1][0] < until:
        out.append((until, out[-1][1]))
    return out


# --- pieces -----------------------------------------------------------------------------------


def _line(place: Place, line: Curve) -> str:
    spots = [(place.across(x), place.up(y)) for x, y in line.points]
    out = ""
    if len(spots) > 1:
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in spots)
        look = f'class="c{line.arm.colour} f"' if line.faint else f'class="c{line.arm.colour}"'
        out = f'<polyline {look}{"" if line.faint else line.arm.dash} points="{path}"/>'
    if line.spots or len(spots) == 1:
        out += "".join(line.arm.spot(x, y) for x, y in spots)
    for x, y in line.notches:
        middle, at = place.across(x), place.up(y)
        out += (
            f'<line class="c{line.arm.colour} n" x1="{middle:.1f}" x2="{middle:.1f}" '
            f'y1="{at - 5:.1f}" y2="{at + 5:.1f}"/>'
        )
    return out


def _band(place: Place, line: Curve) -> str:
    upper = [(x, high) for x, _, high in line.band]
    lower = [(x, low) for x, low, _ in reversed(line.band)]
    path = " ".join(f"{place.across(x):.1f},{place.up(y):.1f}" for x, y in upper + lower)
    return f'<polygon class="d{line.arm.colour} band" points="{path}"/>'


def _aside(
    place: Place, column: int, blocks: Mapping[int, float], columns: int
) -> dict[int, tuple[float, float]]:
    """Each dot beside those it would hide: middle, right, left, further right, ..."""
    taken: list[tuple[float, float]] = []
    out: dict[int, tuple[float, float]] = {}
    widest = _SPREAD * (place.across(1) - place.across(0) if columns > 1 else 200)
    for block, value in sorted(blocks.items(), key=lambda item: item[1]):
        y = place.up(value)
        x = middle = place.across(column)
        for number in range(1, 1 + 2 * int(widest / _DOT)):
            if all(abs(x - a) >= _DOT - 0.1 or abs(y - b) >= _DOT - 0.1 for a, b in taken):
                break
            x = middle + (-1) ** number * _DOT * -(-number // 2)
        taken.append((x, y))
        out[block] = (x, y)
    return out


def _joint(one: Point, other: Point) -> str:
    return (
        f'<line class="p" x1="{one[0]:.1f}" y1="{one[1]:.1f}" '
        f'x2="{other[0]:.1f}" y2="{other[1]:.1f}"/>'
    )


def _median(place: Place, column: int, values: Sequence[float]) -> str:
    if len(values) < _FEWEST_FOR_A_MEDIAN:
        return ""
    y = place.up(statistics.median(values))
    middle = place.across(column)
    return f'<line class="mid" x1="{middle - 34:.1f}" x2="{middle + 34:.1f}" y1="{y:.1f}" y2="{y:.1f}"/>'


def _column_name(x: float, letter: str) -> str:
    y = HEIGHT - BOTTOM + 18
    return f'<text class="t h" x="{x:.1f}" y="{y}" text-anchor="middle">{escape(letter)}</text>'


def _nothing(x: float) -> str:
    return f'<text class="t" x="{x:.1f}" y="{HEIGHT / 2}" text-anchor="middle">none finished</text>'


def _x_label(text: str) -> str:
    return (
        f'<text class="t" x="{WIDTH - RIGHT}" y="{HEIGHT - 4}" text-anchor="end">'
        f"{escape(text)}</text>"
    )
