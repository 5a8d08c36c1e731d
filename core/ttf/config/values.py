"""Values of a configuration before they are checked: converted to TOML's types, and refused if no
key can take them."""

from __future__ import annotations

import datetime
import math
import os
from collections.abc import Mapping
from typing import Any, Final

from ttf.errors import ConfigError

DEEPEST: Final = 16  # tables and lists inside one another; the deepest key has 4
MOST_PROBLEMS: Final = 50
_LARGEST: Final = 2**63 - 1
_SHOWN: Final = 200


def plain(value: Any, depth: int = 0) -> Any:
    """Converts values of Python callers: paths, numbers of NumPy and torch, tuples.

    >>> import pathlib
    >>> plain({"k": (1, 10), "init": pathlib.PurePosixPath("a/b")})
    {'k': [1, 10], 'init': 'a/b'}
    """
    if depth > DEEPEST:
        raise too_deep()
    if isinstance(value, Mapping):
        return {str(key): plain(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item, depth + 1) for item in value]
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if hasattr(value, "tolist") and getattr(value, "ndim", 2) < 2:
        return plain(value.tolist(), depth + 1)
    return value


def plain_values(given: Mapping[str, Any]) -> dict[str, Any]:
    """Values in JSON types, for the trainer's process. Raises ConfigError."""
    values = {str(name): plain(value) for name, value in given.items()}
    problems = [f"{name}: {text}" for name, value in values.items() if (text := unwritable(value))]
    if problems:
        raise ConfigError("Some values cannot be part of a configuration:", problems=problems)
    return values


def plain_arguments(
    config: Any, values: Mapping[str, Any]
) -> tuple[str | dict[str, Any] | None, dict[str, Any]]:
    """A Python caller's configuration (a path or its sections) and values, for the trainer's process,
    which reads the file itself."""
    if config is None:
        return None, plain_values(values)
    sections = isinstance(config, Mapping)
    source = plain_values(config) if sections else plain_path(config, "config")
    return source, plain_values(values)


def plain_path(value: Any, name: str) -> str:
    """The path of the argument `name`. Raises ConfigError."""
    if not isinstance(value, str | os.PathLike):
        raise ConfigError(f"{name}= takes a path, not a value of type {type(value).__name__}.")
    return os.fspath(value)


def too_deep() -> ConfigError:
    return ConfigError(
        f"Tables and lists of the configuration are nested more than {DEEPEST} deep.",
        hint="For a configuration with every key, see: ttf config show",
    )


def unwritable(value: Any) -> str:
    """Why the value cannot be written as text; "" if it can. Not finite numbers are written."""
    if isinstance(value, Mapping):
        return next(filter(None, map(unwritable, value.values())), "")
    if isinstance(value, list):
        return next(filter(None, map(unwritable, value)), "")
    if value is None or isinstance(value, str | bool | int | float):
        return ""
    return f"takes numbers, text, true, false and lists, not {type(value).__name__}"


def refusal(value: Any) -> str:
    """Why no key takes this value; "" if one may."""
    if isinstance(value, Mapping):
        return next(filter(None, map(refusal, value.values())), "")
    if isinstance(value, list):
        return next(filter(None, map(refusal, value)), "")
    if isinstance(value, float) and not math.isfinite(value):
        return f"must be a finite number (got {value})"
    if isinstance(value, int) and abs(value) > _LARGEST:
        return f"is too large for 64 bits (got {shown(value)})"
    if isinstance(value, str):
        return _text_refusal(value)
    if isinstance(value, datetime.date | datetime.time):
        return ""  # TOML has dates; no key takes one, and the schema says what it takes
    return unwritable(value)


def _text_refusal(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        return f"is not valid Unicode (got {shown(text)})"
    return "contains a NUL character" if "\0" in text else ""


def shown(value: Any) -> str:
    """The value for a message, at most one line or two.

    >>> shown("fast"), shown(10**5000)
    ("'fast'", 'a number of 16610 bits')
    """
    try:
        text = repr(value)
    except ValueError:  # Python refuses to write integers of many thousand digits
        return f"a number of {value.bit_length()} bits" if isinstance(value, int) else "a list"
    return shortened(text)


def shortened(text: str) -> str:
    """Cut at a length that a message can hold."""
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}... ({len(text):,} characters)"
