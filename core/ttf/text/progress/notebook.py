"""Progress in the cell of a notebook: one output that renews itself, instead of a terminal's line."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable
from typing import Any, Final

from ttf.text.html import preformatted

WIDTH: Final = 100
_MOST_LINES: Final = 40
_STYLES: Final = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_CUT_OFF: Final = re.compile(r"\x1b\[?[0-9;?]*$")


class Cell:
    """A text stream whose whole text so far is shown anew at every flush.

    It understands what our live line sends: `\\r` begins the last line anew.
    """

    encoding = "utf-8"

    def __init__(self, show: Callable[[str], object]) -> None:
        self._show = show
        self._lines: list[str] = []
        self._last = ""
        self._cut_off = ""  # The beginning of a style whose rest has not arrived.
        self._shown = ""

    def isatty(self) -> bool:
        return False

    def write(self, text: str) -> int:
        text = self._cut_off + text
        cut_off = _CUT_OFF.search(text)
        self._cut_off = cut_off[0] if cut_off else ""
        text = text.removesuffix(self._cut_off)
        *whole, last = _STYLES.sub("", text).split("\n")
        for line in whole:
            self._lines.append(self._continued(line))
            self._last = ""
        self._last = self._continued(last)
        del self._lines[:-_MOST_LINES]
        return len(text)

    def _continued(self, text: str) -> str:
        before, anew, after = (self._last + text).rpartition("\r")
        return after if anew else before + after

    def flush(self) -> None:
        text = "\n".join([*self._lines, self._last]).rstrip("\n")
        if text != self._shown:
            self._shown = text
            self._show(text)


class _Page:
    """What is displayed: HTML where a frontend takes it, else the text."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text

    def _repr_html_(self) -> str:
        return preformatted(self._text)


def cell() -> Cell | None:
    """The output of the notebook's cell that runs this code; None outside notebooks."""
    # A notebook has loaded IPython; nobody else should pay for the import.
    ipython: Any = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    if getattr(shell, "kernel", None) is None:
        return None
    display: Any = importlib.import_module("IPython.display").display
    handles: list[Any] = []

    def show(text: str) -> None:
        if handles:
            handles[0].update(_Page(text))
        else:
            handles.append(display(_Page(text), display_id=True))

    return Cell(show)
