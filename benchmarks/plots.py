"""Plots with two logarithmic axes as one SVG file that needs no style sheet; no plotting library."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

WIDTH, HEIGHT = 620, 340
LEFT, RIGHT, TOP, BOTTOM = 70, 16, 78, 46
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#444444")
_COLUMN, _COLUMNS = 182, 3
"""Width of an entry of the legend, and how many stand in a row."""

Point = tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class Line:
    """Points are joined in the order given."""

    name: str
    points: Sequence[Point]
    faint: bool = False
    """For a reference: dashed, no dots."""
    colour: int | None = None
    """Of `COLOURS`, where several figures show the same things; None: by place."""


def log_log(title: str, lines: Sequence[Line], *, x_label: str, y_label: str) -> str:
    """One figure; values must be above zero."""
    drawn = [line for line in lines if line.points]
    x_range = _range([x for line in drawn for x, _ in line.points])
    y_range = _range([y for line in drawn for _, y in line.points])
    parts = [f'<text x="{LEFT}" y="16" font-weight="bold">{escape(title)}</text>']
    for value in decades(*y_range):
        y = _up(value, y_range)
        parts.append(_rule(LEFT, y, WIDTH - RIGHT, y))
        parts.append(
            f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{short(value)}</text>'
        )
    for value in decades(*x_range):
        x = _across(value, x_range)
        parts.append(_rule(x, TOP, x, HEIGHT - BOTTOM))
        parts.append(
            f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{short(value)}</text>'
        )
    parts.append(
        f'<text x="{WIDTH - RIGHT}" y="{HEIGHT - 8}" text-anchor="end">{escape(x_label)}</text>'
    )
    parts.append(f'<text x="6" y="{TOP - 8}">{escape(y_label)}</text>')
    for place, line in enumerate(drawn):
        colour = COLOURS[(place if line.colour is None else line.colour) % len(COLOURS)]
        spots = [(_across(x, x_range), _up(y, y_range)) for x, y in line.points]
        parts += [_line(spots, colour, line.faint), _legend(place, line.name, colour)]
    return "".join(parts)


def save(path: Path, figures: Sequence[str], columns: int = 2) -> None:
    """All figures on one sheet."""
    columns = min(columns, max(len(figures), 1))
    width, height = WIDTH * columns, HEIGHT * -(-len(figures) // columns)
    placed = "".join(
        f'<g transform="translate({WIDTH * (i % columns)},{HEIGHT * (i // columns)})">{figure}</g>'
        for i, figure in enumerate(figures)
    )
    path.write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" font-family="sans-serif" font-size="12" fill="#222">'
        f'<rect width="{width}" height="{height}" fill="#fff"/>{placed}</svg>\n'
    )


def decades(low: float, high: float) -> list[float]:
    """Ticks between the bounds: 1, 2 and 5 of every power where there is room, else the powers.

    >>> decades(1, 10), decades(0.001, 100)
    ([1.0, 2.0, 5.0, 10.0], [0.001, 0.01, 0.1, 1.0, 10.0, 100.0])
    """
    powers = range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 1)
    fine = math.log10(high / low) <= 3
    out = [m * 10.0**p for p in powers for m in ((1, 2, 5) if fine else (1,))]
    return [value for value in out if low * 0.999 <= value <= high * 1.001]


def short(value: float) -> str:
    """
    >>> short(1e6), short(50_000), short(0.002), short(20)
    ('1M', '50k', '0.002', '20')
    """
    for unit, scale in (("M", 1e6), ("k", 1e3)):
        if value >= scale * 0.999:
            return f"{value / scale:g}{unit}"
    return f"{value:.3g}"


def _range(values: Sequence[float]) -> tuple[float, float]:
    """A little wider than the values, so that dots stay inside."""
    low, high = min(values), max(values)
    room = (high / low) ** 0.05 if high > low else 2.0
    return low / room, high * room


def _across(value: float, x: tuple[float, float]) -> float:
    return LEFT + _share(value, x) * (WIDTH - LEFT - RIGHT)


def _up(value: float, y: tuple[float, float]) -> float:
    return HEIGHT - BOTTOM - _share(value, y) * (HEIGHT - TOP - BOTTOM)


def _share(value: float, bounds: tuple[float, float]) -> float:
    low, high = bounds
    return math.log(value / low) / math.log(high / low)


def _rule(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="#e3e3e3"/>'


def _line(spots: Sequence[Point], colour: str, faint: bool) -> str:
    dash = ' stroke-dasharray="4 4"' if faint else ""
    out = "".join(
        f'<line x1="{a[0]:.1f}" y1="{a[1]:.1f}" x2="{b[0]:.1f}" y2="{b[1]:.1f}" '
        f'stroke="{colour}" stroke-width="1.6"{dash}/>'
        for a, b in itertools.pairwise(spots)
    )
    dots = () if faint else spots
    return out + "".join(
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}"/>' for x, y in dots
    )


def _legend(place: int, name: str, colour: str) -> str:
    x, y = LEFT + _COLUMN * (place % _COLUMNS), 30 + 13 * (place // _COLUMNS)
    return (
        f'<circle cx="{x + 4}" cy="{y - 4}" r="4" fill="{colour}"/>'
        f'<text x="{x + 12}" y="{y}" font-size="11">{escape(name)}</text>'
    )
