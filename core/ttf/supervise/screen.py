"""What the supervisor prints while no trainer owns the screen."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from typing import TYPE_CHECKING, Final

from ttf.text.numbers import duration
from ttf.text.terminal import Part, line_of, painted, visible, wants_colour, wrapped

if TYPE_CHECKING:
    from ttf.supervise.relay import Relay

_SHOW_CURSOR: Final = "\x1b[?25h"
_CLEAR_LINE: Final = "\r\x1b[K"
_CLEAR_TO_END: Final = "\r\x1b[J"
_WIDTH: Final = 80


class Screen:
    """Standard error of the command; prints nothing if progress is off or stderr is closed.

    `live_width`: of a display that is no terminal, but renews a line (a notebook's cell); else 0.
    """

    def __init__(self, wanted: bool) -> None:
        self.fd: int | None = None
        self.live_width = 0
        self._relay: Relay | None = None
        if wanted and sys.stderr is not None:
            self._open()
        self._terminal = self.fd is not None and os.isatty(self.fd)
        self._colour = wants_colour(self._terminal)
        knows_codes = self._terminal and os.environ.get("TERM", "dumb") != "dumb"
        self._renews = knows_codes or self.live_width > 0
        self._waiting = ""

    def _open(self) -> None:
        if isinstance(sys.stderr, io.TextIOWrapper):
            with contextlib.suppress(OSError, ValueError):
                # Its own number: in a child, 2 is where the noise of libraries goes.
                self.fd = os.dup(sys.stderr.fileno())
            return
        # Somebody replaced it. Even if it names a descriptor, that is not where its text goes.
        from ttf.supervise.relay import Relay
        from ttf.text.progress import notebook

        cell = notebook.cell()
        self.live_width = 0 if cell is None else notebook.WIDTH
        self._relay = Relay(sys.stderr if cell is None else cell)
        self.fd = self._relay.fd

    def close(self) -> None:
        if self._relay is not None:
            self._relay.close()
        elif self.fd is not None:
            os.close(self.fd)
        self.fd = None

    def take_back(self) -> None:
        """Clears up after a trainer that could not end its live display."""
        if self._renews:
            self._write(_CLEAR_TO_END + _SHOW_CURSOR)

    def note(self, text: str, *, loud: bool = False) -> None:
        label = "!!" if loud else "note:"
        lines = self._wrapped(visible(f"{label} {text}"), indent=len(label) + 1)
        head = Part(label, "bold red" if loud else "bold yellow")
        shown = painted(line_of(head, lines.removeprefix(label)), colour=self._colour)
        self._write(f"{shown}\n")

    def _wrapped(self, text: str, indent: int) -> str:
        """Wraps at words on a terminal. A pipe gets one line."""
        if not self._terminal or self.fd is None:
            return text
        with contextlib.suppress(OSError):
            width = max(40, os.get_terminal_size(self.fd).columns)
            return "\n".join(wrapped(text, width - 1, hang=indent))
        return text

    def waiting(self, text: str, seconds: float = 0.0) -> None:
        """One line that renews itself while no trainer owns the screen, with how long it has been
        waited; '' ends it. Where lines cannot be renewed, each text is said once."""
        if self._renews:
            width = _WIDTH
            if self._terminal and self.fd is not None:
                with contextlib.suppress(OSError):
                    width = os.get_terminal_size(self.fd).columns or _WIDTH
            line = f"{text} ({duration(seconds)})" if text else ""
            if line or self._waiting:
                self._write(_CLEAR_LINE + visible(line)[: width - 1])
        elif text and text != self._waiting:
            self.note(text)
        self._waiting = text

    def interject(self, text: str) -> None:
        """Prints a note while a trainer, perhaps a hanging one, owns the screen. The trainer draws
        its live line again."""
        if self._renews:
            self._write(_CLEAR_LINE)
        self.note(text)

    def _write(self, text: str) -> None:
        # A closed pipe or a full disk must never end the run.
        if self.fd is None:
            return
        left = memoryview(text.encode(errors="replace"))
        try:
            while left:
                left = left[os.write(self.fd, left) :]
        except OSError:
            self.close()
