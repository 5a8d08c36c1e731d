"""Times of day for people. No decision rests on them: clocks jump, and some stand at 1970."""

from __future__ import annotations

import time
from typing import Final

DATE: Final = "%Y-%m-%d %H:%M:%S"
TIME: Final = "%H:%M:%S"


def moment(seconds: float, form: str = DATE) -> str:
    """The local time of a number of seconds since 1970, whatever number a clock or a file gave.

    >>> moment(1e30), moment(float("nan")), len(moment(-1e9))
    ('an unknown time', 'an unknown time', 19)
    """
    try:
        return time.strftime(form, time.localtime(seconds))
    except (OverflowError, ValueError, OSError):
        return "an unknown time"
