"""A drawing as data: shapes in pixels, a title, a legend."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

HEIGHT = 250
Point = tuple[float, float]


class Shape:
    """An element of SVG. `look`: its classes; `title`: its tooltip."""

    def __init__(
        self,
        tag: str,
        look: str | None = None,
        *,
        text: str = "",
        title: str = "",
        inside: Sequence[Shape] = (),
        **attributes: float | str | None,
    ) -> None:
        self.tag = tag
        self.text = text
        self.title = title
        self.inside = inside
        self.attributes: dict[str, Any] = {"class": look}
        for name, value in attributes.items():
            tenths = f"{value:.1f}" if isinstance(value, float) else value
            self.attributes[name.replace("_", "-")] = tenths


def line(look: str, x1: float, y1: float, x2: float, y2: float, dash: str = "") -> Shape:
    return Shape("line", look, x1=x1, y1=y1, x2=x2, y2=y2, stroke_dasharray=dash or None)


def text(look: str, x: float, y: float, words: str, anchor: str | None = "middle") -> Shape:
    return Shape("text", look, x=x, y=y, text_anchor=anchor, text=words)


@dataclass(frozen=True, kw_only=True)
class Look:
    """How a series is drawn, and its name in the legend. `letter` is for charts with many series."""

    name: str
    colour: int
    letter: str = ""
    dash: str = ""
    outline: Callable[[float, float], str] | None = None  # the path of a dot, if it is not a circle

    def dot(self, x: float, y: float, title: str = "", *, hollow: bool = False) -> Shape:
        if self.outline is None:
            return Shape("circle", f"d{self.colour}", cx=x, cy=y, r=3)
        look = f"{'o' if hollow else 'd'}{self.colour}"
        return Shape("path", look, d=self.outline(x, y), title=title)

    @property
    def key(self) -> list[Shape]:
        """The symbol in the legend; empty if the colour is enough."""
        if self.outline is None:
            return []
        return [line(f"c{self.colour}", 0, 5, 30, 5, self.dash), self.dot(15, 5)]


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A drawing, empty without shapes. `alt`: its content in words; `under`: the text below it."""

    title: str
    shapes: Sequence[Shape] = ()
    legend: Mapping[Look, bool] = field(default_factory=dict)  # whether the series is drawn faint
    height: int = HEIGHT
    alt: str = ""
    under: str = ""
