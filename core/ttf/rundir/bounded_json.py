"""JSON of others, with limits: how long a document may be, how deep, how large its numbers.

A document of a few bytes can hold a number beyond every type, and one of 200 KB is deep enough to
end Python's stack in whatever walks over it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from ttf.errors import ArtifactDamaged
from ttf.rundir.confined import read_inside, read_named

# A summary with 60,000 incidents. Once parsed, a document takes up to 30 times as much memory.
MOST_BYTES: Final = 8 << 20
MOST_DEPTH: Final = 32  # The documents of ttf have at most eight levels.
_INTEGERS: Final = 1 << 64


def parsed_json(data: bytes, *, numbers: bool = True) -> Any:
    """The value of a document. Raises ValueError: it is no JSON, too deep, or, with `numbers`, has
    one that is not finite or beyond 64 bits."""
    value = _loaded(data)
    level = [value]
    for _ in range(MOST_DEPTH + 1):
        if numbers and any(map(_is_out_of_range, level)):
            raise ValueError("it has a number that is out of range")
        level = [inner for outer in level for inner in _inner(outer)]
        if not level:
            return value
    raise ValueError(f"it has more than {MOST_DEPTH} levels")


def parsed_line(raw: bytes) -> dict[str, Any] | None:
    """The object of a line; None if it is none: its writer died, or is still writing it. Its
    numbers are not checked: `ttf.rundir.typed_json` leaves out what does not fit."""
    try:
        # Each level has a bracket of its own: a line with few of them is not deep.
        flat = raw.count(b"[") + raw.count(b"{") <= MOST_DEPTH
        value = _loaded(raw) if flat else parsed_json(raw, numbers=False)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def read_json(path: Path, inside: Path, most: int = MOST_BYTES) -> Any:
    """A document below the folder `inside`. Raises ArtifactDamaged, EntryRefused and OSError."""
    return _document(read_inside(path, inside, most), path)


def read_named_json(path: Path, most: int = MOST_BYTES) -> Any:
    """A document that the user named."""
    return _document(read_named(path, most), path)


def _document(data: bytes, path: Path) -> Any:
    try:
        return parsed_json(data)
    except ValueError as error:
        raise ArtifactDamaged(f"{path} is damaged: {error}.") from error


def _loaded(data: bytes) -> Any:
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
