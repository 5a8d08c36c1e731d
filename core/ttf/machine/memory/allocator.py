"""Returns freed memory to the system."""

from __future__ import annotations

import ctypes

from ttf.process import platform


def give_back() -> None:
    # glibc keeps freed pages. Other systems need nothing.
    if platform.LINUX:
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # musl has none
        if trim is not None:
            trim(0)
