"""What silent processes did: waited, computed, or were kept from running."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final

from ttf.process import platform
from ttf.process.activity import (
    FOR_INPUT,
    IN_THE_KERNEL,
    held,
    waits_for_our_input,
    waits_in_the_kernel,
)
from ttf.process.lifeline import is_stopped

_TICKS: Final = os.sysconf("SC_CLK_TCK")
_COMPUTING: Final = 0.5
_IDLE: Final = 0.02


def what_they_did(pids: Sequence[int], ticks_used: int, seconds: float) -> str:
    """For a sentence. `ticks_used`: their processor time in these seconds, in clock ticks."""
    if not pids:
        return "its process had ended"
    if all(is_stopped(pid) for pid in pids):
        return "it was paused during this time by a SIGSTOP signal"
    held_by = [held(pid) for pid in pids]
    if all(held_by):
        return f"it was {held_by[0]} during this time"
    if not platform.LINUX:
        return "its CPU use is unknown"
    share = ticks_used / _TICKS / max(0.1, seconds)
    if share < _IDLE:
        text = "it used almost no CPU during this time: it was waiting"
        if any(waits_for_our_input(pid) for pid in pids):
            return f"{text}; {FOR_INPUT}"
        stuck = any(waits_in_the_kernel(pid) for pid in pids)
        return f"{text}; {IN_THE_KERNEL}" if stuck else text
    text = f"it used {share:.0%} of one CPU during this time"
    return f"{text}: it was computing" if share > _COMPUTING else text
