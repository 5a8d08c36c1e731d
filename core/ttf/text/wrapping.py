"""Wraps lines to a screen width."""

from __future__ import annotations

import textwrap


def wrapped(text: str, width: int, *, hang: int = 0, fold: bool = False) -> list[str]:
    """Lines of `text`, broken between words, of at most `width`; `hang`: indent of all but the
    first.

    Paths and other long words stay whole, so that they can be copied; with `fold` they are cut, so
    that nothing is lost on a terminal that would cut.
    """
    return textwrap.wrap(
        text,
        width,
        subsequent_indent=" " * hang,
        break_long_words=fold,
        break_on_hyphens=False,
    )
