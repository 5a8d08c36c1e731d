"""Reads the settings of a DataLoader from what a user has: NAME=VALUE, a JSON file, or the script."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

from ttf.errors import ConfigError, suggestion
from ttf.rundir.confined import read_named
from ttf.text.limited_json import parsed_json
from ttf.text.numbers import parse_bytes
from ttf.text.terminal import one_short_line
from ttf.tools.doctor.loader import Loader

_SIZES: Final = frozenset({"sample", "dataset", "cache", "model"})
_FLAGS: Final = frozenset({"objects", "spawn", "pin_memory"})
_KNOWN: Final = frozenset(field.name for field in fields(Loader))
_OTHER_NAMES: Final = {
    "workers": "num_workers", "batch": "batch_size", "bs": "batch_size",
    "prefetch": "prefetch_factor", "sample_bytes": "sample", "dataset_bytes": "dataset",
    "cache_bytes": "cache",
}  # fmt: skip
_FLOAT: Final = 4
_MOST_BYTES: Final = 4 << 20
_MOST_SIZE: Final = 1 << 60
_MOST_WRITTEN: Final = 60


def read_loader(given: Sequence[str]) -> tuple[Loader, tuple[str, ...]]:
    """The settings, later ones win, and remarks about what could not be read."""
    values: dict[str, Any] = {}
    remarks: list[str] = []
    for text in given:
        if "=" in text and not Path(text).exists():
            for word in text.replace(",", " ").split():
                name, _, value = word.partition("=")
                values |= dict([_setting(name, value, text)])
        else:
            found, unknown = _from_file(Path(text))
            values |= found
            remarks += unknown
    if "batch_size" not in values or "sample" not in values:
        missing = [name for name in ("batch_size", "sample") if name not in values]
        raise ConfigError(
            f"A prediction needs {' and '.join(missing)}. {' '.join(remarks)}".rstrip(),
            hint="Add for example: --loader 'batch_size=512 sample=100x768' (float32; or 300kB).",
        )
    return Loader(**values), tuple(remarks)


def _setting(name: str, value: Any, where: str) -> tuple[str, Any]:
    key = _OTHER_NAMES.get(name.strip().lower(), name.strip().lower())
    if key not in _KNOWN:
        raise ConfigError(
            f"--loader {where}: {name!r} is no setting.{suggestion(key, sorted(_KNOWN))}",
            hint=f"Settings: {', '.join(sorted(_KNOWN))}.",
        )
    try:
        return key, _value(key, value)
    except ValueError as error:
        raise ConfigError(f"--loader {where}: {name}: {error}.") from None


def _value(key: str, value: Any) -> Any:
    if key in _FLAGS:
        return value if isinstance(value, bool) else str(value).lower() in ("1", "true", "yes")
    if key in _SIZES:
        return _size(value)
    number = int(value)
    if not 0 <= number <= 10**6:
        raise ValueError("must be 0 to 1,000,000")
    return number


def _size(value: Any) -> int:
    """Bytes, '300kB', or a shape of float32: '100x768'.

    >>> _size("100x768"), _size("1kB"), _size(12)
    (307200, 1000, 12)
    """
    words = str(value).lower().split("x")
    if isinstance(value, int):
        found = value
    elif len(words) > 1 and all(word.isdecimal() for word in words):
        found = math.prod(map(int, words)) * _FLOAT
    else:
        found = parse_bytes(str(value))
    if not 0 <= found <= _MOST_SIZE:
        raise ValueError("must be 0 to 2^60 bytes")
    return found


# --- files -----------------------------------------------------------------------------------------


def _from_file(path: Path) -> tuple[dict[str, Any], list[str]]:
    try:
        text = read_named(path, _MOST_BYTES).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"--loader {path}: cannot be read ({error}).") from None
    if path.suffix == ".py":
        return _from_script(text, path)
    try:
        document = parsed_json(text.encode())
    except ValueError as error:
        raise ConfigError(
            f"--loader {path}: this is neither a Python script nor valid JSON ({error}).",
            hint="Give the values: --loader 'num_workers=8 prefetch_factor=2 batch_size=512'.",
        ) from None
    return dict(_wanted(document)), []


def _wanted(document: Any) -> Iterator[tuple[str, Any]]:
    """Settings of a loader, at any depth; other keys are somebody else's."""
    if not isinstance(document, Mapping):
        return
    for name, value in document.items():
        key = _OTHER_NAMES.get(str(name).lower(), str(name).lower())
        if isinstance(value, Mapping):
            yield from _wanted(value)
        elif key in _KNOWN and isinstance(value, bool | int | str):
            yield _setting(key, value, str(name))


def _from_script(text: str, path: Path) -> tuple[dict[str, Any], list[str]]:
    """From the keywords of the calls of DataLoader: numbers, constants, defaults of argparse."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, RecursionError, MemoryError) as error:
        # The last two: an expression that is too deep for Python's parser.
        why = str(error) or "it is nested too deep"
        raise ConfigError(f"--loader {path}: not a Python script ({why}).") from None
    names = dict(_constants(tree))
    calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call) and _called(n) == "DataLoader"]
    found: dict[str, Any] = {}
    remarks = [] if calls else [f"{path.name} has no call of DataLoader."]
    for call in calls:
        for keyword in call.keywords:
            if keyword.arg not in ("num_workers", "batch_size", "prefetch_factor", "pin_memory"):
                continue
            value = _known(keyword.value, names)
            if value is None:
                remarks.append(
                    f"{path.name}:{call.lineno}: {keyword.arg} = {_written(keyword.value)} is "
                    f"not a number in the script; add --loader {keyword.arg}=..."
                )
            else:
                _, fitting = _setting(keyword.arg, value, f"{path}:{call.lineno}")
                # Of several loaders the largest counts.
                found[keyword.arg] = max(fitting, found.get(keyword.arg, fitting))
    if sum(int(_workers(call, names)) > 0 for call in calls) > 1:
        found["loaders"] = sum(int(_workers(call, names)) > 0 for call in calls)
    return found, remarks


def _written(node: ast.expr) -> str:
    try:
        return one_short_line(ast.unparse(node), _MOST_WRITTEN)
    except RecursionError:
        return "..."


def _workers(call: ast.Call, names: Mapping[str, Any]) -> int:
    given = next((k.value for k in call.keywords if k.arg == "num_workers"), None)
    value = None if given is None else _known(given, names)
    persistent = any(k.arg == "persistent_workers" for k in call.keywords)
    return int(value or 0) if persistent else 0


def _constants(tree: ast.Module) -> Iterator[tuple[str, Any]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            yield from ((t.id, node.value.value) for t in node.targets if isinstance(t, ast.Name))
        elif isinstance(node, ast.Call) and _called(node) == "add_argument" and node.args:
            first = node.args[0]
            default = next((k.value for k in node.keywords if k.arg == "default"), None)
            if isinstance(first, ast.Constant) and isinstance(default, ast.Constant):
                yield str(first.value).lstrip("-").replace("-", "_"), default.value


def _called(call: ast.Call) -> str:
    function = call.func
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _known(node: ast.expr, names: Mapping[str, Any]) -> int | bool | None:
    value: Any = None
    if isinstance(node, ast.Constant):
        value = node.value
    elif isinstance(node, ast.Name):
        value = names.get(node.id)
    elif isinstance(node, ast.Attribute):
        value = names.get(node.attr)
    return value if isinstance(value, int) else None
