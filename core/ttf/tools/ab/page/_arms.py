"""How arms are told apart: a letter, and beside the colour a shape and a dash, for who sees none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

from ttf.tools.ab.output.words import letter

_COLOURS: Final = (0, 1, 2, 4, 5, 6, 3)
"""Of the page's style; red is last, as it is what failures have elsewhere."""
_DASHES: Final = ("", "7 3", "2 3", "9 3 2 3", "12 4", "4 2 1 2 1 2")
_SHAPES: Final = 7


@dataclass(frozen=True, kw_only=True)
class Arm:
    """Its place decides how it looks, so it looks the same in every drawing."""

    name: str
    place: int

    @property
    def letter(self) -> str:
        return letter(self.place)

    @property
    def colour(self) -> int:
        return _COLOURS[self.place % len(_COLOURS)]

    @property
    def dash(self) -> str:
        """An attribute of a line."""
        dash = _DASHES[self.place % len(_DASHES)]
        return f' stroke-dasharray="{dash}"' if dash else ""

    def spot(self, x: float, y: float, title: str = "", *, hollow: bool = False) -> str:
        """Its shape at a place; hollow: something is to be known about that one."""
        kind = f"o{self.colour}" if hollow else f"d{self.colour}"
        told = f"<title>{escape(title)}</title>" if title else ""
        return f'<path class="{kind}" d="{_shape(self.place % _SHAPES, x, y)}">{told}</path>'

    @property
    def badge(self) -> str:
        """Its letter in its colour, for tables."""
        return f"<b class='arm k{self.colour}'>{self.letter}</b>"

    @property
    def key(self) -> str:
        """For legends: line, shape, letter and name."""
        drawn = (
            f'<svg class="key" viewBox="0 0 30 10" aria-hidden="true"><line class="c{self.colour}" '
            f'x1="0" x2="30" y1="5" y2="5"{self.dash}/>{self.spot(15, 5)}</svg>'
        )
        return f"<span>{drawn}{self.letter} {escape(self.name)}</span>"


def arms_of(names: Sequence[str]) -> list[Arm]:
    return [Arm(name=name, place=place) for place, name in enumerate(names)]


def _shape(kind: int, x: float, y: float, r: float = 3.4) -> str:
    """Circle, square, triangle, diamond, triangle upside down, cross, star of four."""
    if kind == 0:
        return f"M{x - r:.1f} {y:.1f}a{r} {r} 0 1 0 {2 * r:.1f} 0a{r} {r} 0 1 0 {-2 * r:.1f} 0z"
    corners: dict[int, tuple[tuple[float, float], ...]] = {
        1: ((-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)),
        2: ((0, -1.2), (1.15, 0.85), (-1.15, 0.85)),
        3: ((0, -1.3), (1.15, 0), (0, 1.3), (-1.15, 0)),
        4: ((0, 1.2), (1.15, -0.85), (-1.15, -0.85)),
        5: _CROSS,
        6: ((0, -1.5), (0.4, -0.4), (1.5, 0), (0.4, 0.4), (0, 1.5), (-0.4, 0.4), (-1.5, 0),
            (-0.4, -0.4)),
    }  # fmt: skip
    points = " ".join(f"{x + r * dx:.1f} {y + r * dy:.1f}" for dx, dy in corners[kind])
    return f"M{points}z"


_CROSS: Final = (
    (-0.45, -1.3), (0.45, -1.3), (0.45, -0.45), (1.3, -0.45), (1.3, 0.45), (0.45, 0.45),
    (0.45, 1.3), (-0.45, 1.3), (-0.45, 0.45), (-1.3, 0.45), (-1.3, -0.45), (-0.45, -0.45),
)  # fmt: skip
