"""Memory that was freed but not given back."""

from __future__ import annotations

import ctypes

from ttf.process import platform


def give_back() -> None:
    """Returns free pages to the system; glibc keeps them otherwise. Does nothing elsewhere."""
    if platform.LINUX:
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # musl has none
        if trim is not None:
            trim(0)
