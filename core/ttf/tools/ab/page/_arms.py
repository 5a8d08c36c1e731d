"""How arms are told apart: by a letter, a colour, a shape and a dash, also for colour-blind
readers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from ttf.tools.ab.output.words import letter
from ttf.tools.report.charts.figure import Look

# Colours of the page's style; red is last, since other pages use it for failures.
_COLOURS: Final = (0, 1, 2, 4, 5, 6, 3)
_DASHES: Final = ("", "7 3", "2 3", "9 3 2 3", "12 4", "4 2 1 2 1 2")
_RADIUS: Final = 3.4


def arms_of(names: Sequence[str]) -> dict[str, Look]:
    """By name. The look depends only on the arm's position, and is the same in every drawing."""
    return {
        name: Look(
            name=name,
            colour=_COLOURS[place % len(_COLOURS)],
            letter=letter(place),
            dash=_DASHES[place % len(_DASHES)],
            outline=_OUTLINES[place % len(_OUTLINES)],
        )
        for place, name in enumerate(names)
    }


def _circle(x: float, y: float) -> str:
    r = _RADIUS
    return f"M{x - r:.1f} {y:.1f}a{r} {r} 0 1 0 {2 * r:.1f} 0a{r} {r} 0 1 0 {-2 * r:.1f} 0z"


def _polygon(corners: Sequence[tuple[float, float]], x: float, y: float) -> str:
    points = " ".join(f"{x + _RADIUS * dx:.1f} {y + _RADIUS * dy:.1f}" for dx, dy in corners)
    return f"M{points}z"


# Square, triangle, diamond, reversed triangle, cross, star: of radius 1.
_POLYGONS: Final[Sequence[Sequence[tuple[float, float]]]] = (
    ((-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)),
    ((0, -1.2), (1.15, 0.85), (-1.15, 0.85)),
    ((0, -1.3), (1.15, 0), (0, 1.3), (-1.15, 0)),
    ((0, 1.2), (1.15, -0.85), (-1.15, -0.85)),
    ((-0.45, -1.3), (0.45, -1.3), (0.45, -0.45), (1.3, -0.45), (1.3, 0.45), (0.45, 0.45),
     (0.45, 1.3), (-0.45, 1.3), (-0.45, 0.45), (-1.3, 0.45), (-1.3, -0.45), (-0.45, -0.45)),
    ((0, -1.5), (0.4, -0.4), (1.5, 0), (0.4, 0.4), (0, 1.5), (-0.4, 0.4), (-1.5, 0),
     (-0.4, -0.4)),
)  # fmt: skip
_OUTLINES: Final[Sequence[Callable[[float, float], str]]] = (
    _circle,
    *(partial(_polygon, corners) for corners in _POLYGONS),
)
