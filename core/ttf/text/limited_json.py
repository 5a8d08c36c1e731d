"""JSON of others within limits, whether it lies in a file or came through a connection.

A document of a few bytes can hold a number beyond every type, and one of 200 KB is deep enough to end
Python's stack in whatever walks over it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final

MOST_DEPTH: Final = 32  # The documents of ttf have at most eight levels.
_INTEGERS: Final = 1 << 64


def parsed_json(data: bytes, *, numbers: bool = True) -> Any:
    """The value of a document. Raises ValueError: it is no JSON, too deep, or, with `numbers`, has
    one that is not finite or beyond 64 bits."""
    value = loaded_json(data)
    level = [value]
    for _ in range(MOST_DEPTH + 1):
        if numbers and any(map(_is_out_of_range, level)):
            raise ValueError("it has a number that is out of range")
        level = [inner for outer in level for inner in _inner(outer)]
        if not level:
            return value
    raise ValueError(f"it has more than {MOST_DEPTH} levels")


def loaded_json(data: bytes) -> Any:
    """The same, its depth and its numbers not looked at."""
    try:
        return json.loads(data.decode())
    except RecursionError:
        raise ValueError("it is nested too deep") from None


def _inner(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _is_out_of_range(value: Any) -> bool:
    if isinstance(value, float):
        return value - value != 0
    return isinstance(value, int) and abs(value) >= _INTEGERS
