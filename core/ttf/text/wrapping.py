"""Lines for a screen of some width."""

from __future__ import annotations

import textwrap


def wrapped(text: str, width: int, *, hang: int = 0, fold: bool = False) -> list[str]:
    """`text` between words, in lines of at most `width`; `hang`: how far all but the first are moved in.

    Paths and other long words stay whole, so that they can be copied; with `fold` they are cut, so
    that nothing is lost where a terminal would cut.
    """
    return textwrap.wrap(
        text,
        width,
        subsequent_indent=" " * hang,
        break_long_words=fold,
        break_on_hyphens=False,
    )
