"""JSON as types: a reader then checks only if a key is there, never the type of its value.

Documents (`ttf.rundir.documents`) may be damaged: wrong values are left out. A dataclass is all
right or refused.
"""

from __future__ import annotations

from collections import abc
from collections.abc import Callable, Hashable, Mapping
from dataclasses import is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import (
    Any,
    Final,
    Literal,
    TypeGuard,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

D = TypeVar("D")
_Fit = Callable[[Any], Any]
_UNFIT: Final = object()
_PLAIN: Final[Mapping[Any, tuple[type, ...]]] = {
    str: (str,),
    bool: (bool,),
    int: (int,),
    float: (float, int),
    NoneType: (NoneType,),
}
_LARGEST: Final = 1e300  # Sums and squares of larger numbers are not finite.


def typed(value: object, kind: type[D]) -> D:
    """An object as a document of that kind; unknown keys stay unchanged."""
    found = _fit(cast("Hashable", kind))(value)
    return cast("D", {} if found is _UNFIT else found)


def is_number(value: object) -> TypeGuard[float]:
    """A finite number that is not a bool."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _LARGEST


def dataclass_from(kind: type[D], values: object) -> D:
    """The inverse of `asdict`, through JSON: with inner dataclasses, and lists as tuples.

    Raises TypeError, LookupError or ValueError for what is missing, unknown or of another type.
    """
    if not isinstance(values, abc.Mapping):
        raise TypeError(f"{kind.__name__}: {type(values).__name__} instead of an object")
    hints = _hints(cast("Hashable", kind))
    restored = {}
    for name, value in values.items():
        try:
            restored[name] = _restored(hints[name], value)
        except TypeError as error:
            raise TypeError(f"{name}: {error}") from None
    return kind(**restored)


@cache
def _hints(kind: Hashable) -> dict[str, Any]:
    return get_type_hints(kind)


def _restored(hint: Any, value: Any) -> Any:
    origin, inner = get_origin(hint), get_args(hint)
    if is_dataclass(hint):
        return dataclass_from(cast("type[Any]", hint), value)
    if origin in (Union, UnionType):
        return _restored_as_one_of(inner, value)
    if origin is tuple and isinstance(value, list | tuple):
        kinds = [inner[0]] * len(value) if inner[1:] == (...,) else inner
        return tuple(_restored(kind, one) for kind, one in zip(kinds, value, strict=True))
    if origin in (abc.Mapping, dict) and isinstance(value, abc.Mapping):
        return {_restored(inner[0], key): _restored(inner[1], one) for key, one in value.items()}
    if origin is list and isinstance(value, list):
        return [_restored(inner[0], one) for one in value]
    if origin is Literal and value in inner:
        return value
    if hint is Any or (hint in _PLAIN and type(value) in _PLAIN[hint]):
        return value
    raise TypeError(f"{str(value)[:80]!r} is not {getattr(hint, '__name__', hint)}")


def _restored_as_one_of(kinds: tuple[Any, ...], value: Any) -> Any:
    for kind in kinds:
        try:
            return _restored(kind, value)
        except (TypeError, LookupError, ValueError) as error:
            failure = error
    raise failure


# --- one function per type, made once --------------------------------------------------------------


@cache
def _fit(hint: Hashable) -> _Fit:
    """The function returns the value as that type, or `_UNFIT`."""
    if is_typeddict(hint):
        keys = {name: _fit(inner) for name, inner in get_type_hints(hint).items()}
        return _object(keys, _SIMPLE[Any], cast("Any", hint).__required_keys__)
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return _any_of([_fit(one) for one in inner])
    if origin is Literal:
        return lambda value: value if value in inner else _UNFIT
    if origin is list:
        return _list(_fit(inner[0]))
    if origin is dict:
        return _object({}, _fit(inner[1]), frozenset())
    return _SIMPLE[hint]


def _integer(value: Any) -> Any:
    # JSON has one kind of number: 1e9 may be meant as a count.
    return int(value) if is_number(value) and value == int(value) else _UNFIT


def _text(value: Any) -> Any:
    # A number is accepted as text: a version, a name.
    if is_number(value):
        return str(value)
    return value if isinstance(value, str) else _UNFIT


_SIMPLE: Final[Mapping[Any, _Fit]] = {
    Any: lambda value: value,
    str: _text,
    bool: lambda value: value if isinstance(value, bool) else _UNFIT,
    int: _integer,
    float: lambda value: value if is_number(value) else _UNFIT,
    NoneType: lambda value: value if value is None else _UNFIT,
}


def _object(keys: Mapping[str, _Fit], other: _Fit, required: frozenset[str]) -> _Fit:
    # `other`: for keys that are not named. An object without a required key is `_UNFIT`.
    def fit(value: Any) -> Any:
        if not isinstance(value, dict):
            return _UNFIT
        tried = {key: keys.get(key, other)(inner) for key, inner in value.items()}
        found = {key: inner for key, inner in tried.items() if inner is not _UNFIT}
        return found if required <= found.keys() else _UNFIT

    return fit


def _list(of: _Fit) -> _Fit:
    def fit(value: Any) -> Any:
        if not isinstance(value, list):
            return _UNFIT
        return [found for inner in value if (found := of(inner)) is not _UNFIT]

    return fit


def _any_of(kinds: list[_Fit]) -> _Fit:
    def fit(value: Any) -> Any:
        return next((found for kind in kinds if (found := kind(value)) is not _UNFIT), _UNFIT)

    return fit
