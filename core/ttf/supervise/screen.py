"""What the supervisor itself says, while no trainer has the screen."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import Final

_SHOW_CURSOR: Final = "\x1b[?25h"
_CLEAR_LINE: Final = "\r\x1b[K"
_CLEAR_TO_END: Final = "\r\x1b[J"

from ttf.text.wrapping import wrapped


class Screen:
    """Standard error of the command; silent where nobody wants progress or it is closed."""

    def __init__(self, wanted: bool) -> None:
        self.fd: int | None = None
        with contextlib.suppress(OSError, ValueError, AttributeError):
            # Its own number: in a child, 2 is where the noise of libraries goes.
            self.fd = os.dup(sys.stderr.fileno()) if wanted else None
        self._terminal = self.fd is not None and os.isatty(self.fd)
        self._colour = self._terminal and not os.environ.get("NO_COLOR")

    def close(self) -> None:
        if self.fd is not None:
            os.close(self.fd)
            self.fd = None

    def take_back(self) -> None:
        """After a trainer that could not leave its live display whole."""
        if self._terminal and os.environ.get("TERM", "dumb") != "dumb":
            self._write(_CLEAR_TO_END + _SHOW_CURSOR)

    def note(self, text: str, *, loud: bool = False) -> None:
        label = "!!" if loud else "note:"
        lines = self._wrapped(f"{label} {text}", indent=len(label) + 1)
        if self._colour:
            lines = f"\x1b[1;{31 if loud else 33}m{label}\x1b[0m{lines.removeprefix(label)}"
        self._write(f"{lines}\n")

    def _wrapped(self, text: str, indent: int) -> str:
        """Between words on a terminal; a pipe gets one line."""
        if not self._terminal or self.fd is None:
            return text
        with contextlib.suppress(OSError):
            width = max(40, os.get_terminal_size(self.fd).columns)
            return "\n".join(wrapped(text, width - 1, hang=indent))
        return text

    def interject(self, text: str) -> None:
        """A note while a trainer has the screen, which may not be able to say anything; it draws
        its live line anew."""
        if self._terminal and os.environ.get("TERM", "dumb") != "dumb":
            self._write(_CLEAR_LINE)
        self.note(text)

    def _write(self, text: str) -> None:
        """A reader who left or a full disk never ends the run."""
        if self.fd is None:
            return
        left = memoryview(text.encode(errors="replace"))
        try:
            while left:
                left = left[os.write(self.fd, left) :]
        except OSError:
            self.close()
