"""Frozen dataclasses from what `dataclasses.asdict` and JSON made of them."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import is_dataclass
from functools import cache
from typing import Any, TypeVar, cast, get_args, get_type_hints

T = TypeVar("T")


def from_json(kind: type[T], values: Mapping[str, Any]) -> T:
    """Lists become tuples again. Raises TypeError for a missing or an unknown field."""
    hints = _hints(cast("Hashable", kind))
    return kind(**{name: _restored(hints.get(name), value) for name, value in values.items()})


def _restored(hint: Any, value: Any) -> Any:
    if isinstance(value, list):
        inner = next(iter(get_args(hint)), None)
        return tuple(_restored(inner, one) for one in value)
    if is_dataclass(hint) and isinstance(hint, type):
        return from_json(hint, value)
    return value


@cache
def _hints(kind: Hashable) -> dict[str, Any]:
    return get_type_hints(kind)
