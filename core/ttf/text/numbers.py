"""Formats numbers and times for people."""

from __future__ import annotations

import re
import time
from typing import Any, Final

DATE: Final = "%Y-%m-%d %H:%M:%S"
TIME: Final = "%H:%M:%S"


def duration(seconds: float) -> str:
    """
    >>> [duration(s) for s in (0.042, 3.21, 75, 3725, 200000)]
    ['42 ms', '3.2 s', '1:15', '1:02:05', '2 d 7 h']
    """
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60}:{whole % 60:02d}"
    if whole < 48 * 3600:
        return f"{whole // 3600}:{whole % 3600 // 60:02d}:{whole % 60:02d}"
    return f"{whole // 86400} d {whole % 86400 // 3600} h"


def fine_duration(seconds: float) -> str:
    """Like `duration`, with digits below 10 ms.

    >>> [fine_duration(s) for s in (0.000324, 0.0056, 0.021, 3.21)]
    ['0.32 ms', '5.6 ms', '21 ms', '3.2 s']
    """
    return f"{seconds * 1000:.2g} ms" if seconds < 0.01 else duration(seconds)


def clock(seconds: float) -> str:
    """A time left with a stable width: 0:42, 12:05, 1:02:05."""
    return duration(max(60.0, seconds)) if seconds >= 60 else f"0:{int(seconds):02d}"


def size(count: float) -> str:
    """Bytes in decimal units, as `peak_anon_mb` counts.

    >>> [size(b) for b in (0, 999, 61_200_000, 11_030_000_000)]
    ['0 B', '999 B', '61 MB', '11.0 GB']
    """
    if count < 1000:
        return f"{count:.0f} B"
    for unit, scale in (("kB", 1e3), ("MB", 1e6), ("GB", 1e9), ("TB", 1e12)):
        if count < scale * 999.5 or unit == "TB":
            value = count / scale
            digits = 1 if unit in ("GB", "TB") or value < 9.95 else 0
            return f"{value:.{digits}f} {unit}"
    raise AssertionError("unreachable: the last unit takes everything")


def rate(per_second: float) -> str:
    """
    >>> [rate(r) for r in (0.42, 12.3, 1234.5)]
    ['0.42/s', '12.3/s', '1,234/s']
    """
    digits = 2 if per_second < 10 else 1 if per_second < 100 else 0
    return f"{per_second:,.{digits}f}/s"


def metric(name: str, value: float) -> str:
    """Shares with three digits after the point; others with four significant digits."""
    return f"{value:.3f}" if 0 <= value <= 1 else f"{value:.4g}"


def moved(label: str, before: float | None, now: float) -> str:
    """A metric with its value before, if that is known."""
    shown = metric(label, now)
    return f"{label} {shown}" if before is None else f"{label} {metric(label, before)} -> {shown}"


def change(before: float, now: float) -> str:
    """
    >>> [change(0.1, 0.35), change(0.5, 0.49), change(0.2, 0.2), change(0, 0.3)]
    ['+0.250 (x3.5)', '-0.010', '=', '+0.300']
    """
    difference = now - before
    if abs(difference) < 0.0005:
        return "="
    factor = f" (x{now / before:.1f})" if before > 0 and now / before >= 1.5 else ""
    return f"{difference:+.3f}{factor}"


def number(value: Any) -> str:
    """A float with four significant digits, other values unchanged.

    >>> number(0.123456), number(1234.5), number(3), number("x")
    ('0.1235', '1234', '3', 'x')
    """
    return _significant(value) if isinstance(value, float) else str(value)


def _significant(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def bound(value: float) -> str:
    """A bound of an option: whole numbers with every digit.

    >>> [bound(b) for b in (0, 0.5, 512, 1_000_000, 3e38)]
    ['0', '0.5', '512', '1,000,000', '3e+38']
    """
    whole = isinstance(value, int) or (value.is_integer() and abs(value) < 1e15)
    return f"{int(value):,}" if whole else f"{value:g}"


# Of a duration as people write it, in options and in the configuration.
DURATION: Final = r"\s*(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)?\s*"
_SECONDS: Final = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86_400}


def parse_duration(value: str) -> float:
    """Seconds from '6', '6s', '500ms', '10m', '2h' or '1d'.

    >>> [parse_duration(text) for text in ("6", "6s", "10m", "1.5h")]
    [6.0, 6.0, 600.0, 5400.0]
    """
    match = re.fullmatch(DURATION, value)
    if match is None:
        raise ValueError(f"{value!r} is not a time; write for example 90s, 10m or 2h.")
    return float(match[1]) * _SECONDS[match[2] or "s"]


def seconds(value: Any) -> Any:
    """The seconds of text as people write it; other values unchanged."""
    return parse_duration(value) if isinstance(value, str) else value


_UNITS: Final = {
    "": 1,
    "b": 1,
    "k": 10**3,
    "m": 10**6,
    "g": 10**9,
    "ki": 2**10,
    "mi": 2**20,
    "gi": 2**30,
    "t": 10**12,
    "ti": 2**40,
}


def parse_bytes(value: str) -> int:
    """Bytes from '4096', '512MiB' or '1.5GB'.

    >>> parse_bytes("512MiB")
    536870912
    """
    match = re.fullmatch(r"\s*([0-9.]+)\s*([kmgt]?i?)b?\s*", value.lower())
    try:
        return int(float(match[1]) * _UNITS[match[2]]) if match else _bad_size(value)
    except (KeyError, ValueError, OverflowError):
        return _bad_size(value)


def percent(value: str) -> float | None:
    """The share that '60%' means; None for other texts.

    >>> percent("60%"), percent("512MiB")
    (0.6, None)
    """
    found = re.fullmatch(r"\s*(\d{1,4}(?:\.\d+)?)\s*%\s*", value)
    return None if found is None else float(found[1]) / 100


def _bad_size(value: str) -> int:
    raise ValueError(
        f"not a size: {value!r}; write a number of bytes, or for example '512MiB' or '1.5GB'"
    )


def moment(seconds: float, form: str = DATE) -> str:
    """The local time of a number of seconds since 1970, whatever number a clock or a file gave.
    No decision rests on it: clocks jump, and some stand at 1970.

    >>> moment(1e30), moment(float("nan")), len(moment(-1e9))
    ('an unknown time', 'an unknown time', 19)
    """
    try:
        return time.strftime(form, time.localtime(seconds))
    except (OverflowError, ValueError, OSError):
        return "an unknown time"
