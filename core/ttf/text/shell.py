"""Quotes words for a shell, so that a proposed command can be pasted."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path
from typing import Final

from ttf.text.terminal import one_line

_SPECIAL: Final = re.compile(r"[\\']")


def quoted(value: str | Path) -> str:
    """The word as a shell takes it back, in characters that are safe to show.

    >>> print(quoted("a b"), quoted("a\\nb'"))
    'a b' $'a\\nb\\''
    """
    text = str(value)
    if one_line(text) == text:
        return shlex.quote(text)
    # ANSI-C quoting, of bash, zsh and POSIX 2024.
    return "$'" + "".join(map(_ansi_c, text)) + "'"


def _ansi_c(character: str) -> str:
    shown = one_line(_SPECIAL.sub(r"\\\g<0>", character))
    if shown == character or not shown.startswith("\\x"):
        return shown
    return "".join(f"\\x{byte:02x}" for byte in os.fsencode(character))
