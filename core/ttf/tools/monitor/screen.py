"""Draws a page in place on a terminal, in the ordinary screen: nothing to restore at the end.

Without rich, whose layout takes several times as long, next to a training. The cursor stays visible
and the keys stay the terminal's, so that a killed monitor leaves the terminal intact.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Sequence
from typing import Final, TextIO

from ttf.process.signals import Signals, wait_for
from ttf.text.terminal import painted, wants_unicode
from ttf.tools.monitor.cells import Paint, line_columns
from ttf.tools.monitor.page import page
from ttf.tools.monitor.view import View

_END_OF_LINE: Final = "\x1b[K"
_END_OF_SCREEN: Final = "\x1b[J"
_NARROWEST: Final = 20
_USUAL: Final = os.terminal_size((80, 24))


class Screen:
    def __init__(
        self, stream: TextIO, *, colour: bool, size: Callable[[], os.terminal_size] | None = None
    ) -> None:
        self._out = stream
        self._size = size or (lambda: os.get_terminal_size(stream.fileno()))
        self._colour = colour
        self._paint = Paint(unicode=wants_unicode(stream))
        self._drawn: Sequence[int] = ()  # columns of each line on the screen

    def draw(self, view: View) -> None:
        size = self._known_size()
        width = max(_NARROWEST, size.columns - 1)  # a full line makes some terminals scroll
        height = max(1, size.lines - 1)
        lines = page(view, self._paint, width, height)
        shown = (painted(line, colour=self._colour) for line in lines)
        text = "".join(f"{line}{_END_OF_LINE}\n" for line in shown)
        self._out.write(f"{self._back(size)}{text}{_END_OF_SCREEN}")
        self._out.flush()
        self._drawn = [line_columns(line) for line in lines]

    def _known_size(self) -> os.terminal_size:
        # Some terminals report no size.
        size = self._size()
        return size if size.columns > 0 and size.lines > 0 else _USUAL

    def forget(self) -> None:
        """After other output on the terminal: the next page begins below it."""
        self._drawn = ()

    def interrupted(self) -> None:
        # The terminal has shown the key: the next output needs its own line.
        self._out.write("\n")
        self._out.flush()

    def _back(self, size: os.terminal_size) -> str:
        # To the first drawn line. A terminal that became narrower has wrapped the longer lines;
        # what it pushed above its first line stays there.
        rows = sum(max(1, -(-line // max(1, size.columns))) for line in self._drawn)
        up = min(rows, size.lines - 1)
        return "\r" + (f"\x1b[{up}A" if up > 0 else "")


def show(look: Callable[[], View], screen: Screen, interval_s: float) -> View:
    """Until no process works any more; returns the last view. KeyboardInterrupt ends it as well."""
    with Signals(signal.SIGWINCH, signal.SIGCONT) as signals:
        try:
            while True:
                view = look()
                screen.draw(view)
                if not view.alive:
                    return view
                _keep(view, screen, signals, time.monotonic() + interval_s)
        except KeyboardInterrupt:
            screen.interrupted()
            raise


def _keep(view: View, screen: Screen, signals: Signals, until: float) -> None:
    # The same page, drawn again if the terminal changed.
    while (left := until - time.monotonic()) > 0:
        wait_for(signals, left)
        taken = signals.take()
        if signal.SIGCONT in taken:
            screen.forget()
        if taken:
            screen.draw(view)
