"""Configuration as TOML: reading it with line numbers, writing it with the origin of every value.

`run.toml` in a run's folder is what `dump` writes; `resolve.load_run_toml` reads it back, origins
included.
"""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ttf.config import toml_text
from ttf.config.toml_text import Keys
from ttf.errors import ConfigError

if TYPE_CHECKING:
    from ttf.config.resolve import Resolved

COMMENT = "  # "


@dataclass(frozen=True, kw_only=True)
class Document:
    """A parsed TOML file and the lines of its keys."""

    name: str
    values: Mapping[str, Any]
    lines: Mapping[Keys, int]

    def origin(self, path: Keys) -> str:
        """`run.toml:12`, by the nearest enclosing key that has a line."""
        for end in range(len(path), 0, -1):
            if path[:end] in self.lines:
                return f"{self.name}:{self.lines[path[:end]]}"
        below = [n for keys, n in self.lines.items() if keys[: len(path)] == path]
        return f"{self.name}:{min(below)}" if below else self.name


def read(path: Path) -> Document:
    """Raises ConfigError with line and column if the text is not TOML, or is beyond its limits."""
    text = toml_text.text_of(path)
    try:
        values = toml_text.parse(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(
            f"{path} is not valid TOML: {error}.",
            hint=(
                "Strings need quotes, true and false are lower case, and a table starts with "
                "[section]."
            ),
        ) from error
    except ValueError as error:
        raise ConfigError(
            f"{path} is not a configuration: {error}.",
            hint="For a configuration with every key, see: ttf config show",
        ) from error
    return Document(name=path.name, values=values, lines=toml_text.key_lines(text))


# --- writing ---------------------------------------------------------------------------------


_HEAD: Final = (
    "The complete configuration of this run. A comment shows where each value comes from.",
    "To start a new run with this configuration: ttf train run.toml --out NEW_FOLDER",
)


def dump(resolved: Resolved, head: Sequence[str] = _HEAD) -> str:
    """run.toml: valid TOML, every value followed by its origin."""
    tree = resolved.config.model_dump()
    lines = [f"# {line}" for line in head]
    scalars = {k: v for k, v in tree.items() if not _is_table(v) and k != "gates"}
    lines += ["", *_entries((), scalars, resolved.origins)]
    for name, section in tree.items():
        if _is_table(section):
            lines += _table((name,), section, resolved.origins)
    for gate in tree.get("gates", ()):
        origin = resolved.origins.get("gates", "default")
        lines += ["", "[[gates]]"]
        lines += [f"{_key(k)} = {render(v)}{COMMENT}{origin}" for k, v in gate.items()]
    return "\n".join(lines) + "\n"


def _table(path: Keys, section: Mapping[str, Any], origins: Mapping[str, str]) -> Iterator[str]:
    scalars = {k: v for k, v in section.items() if not _is_table(v)}
    if scalars or not section:
        yield ""
        yield f"[{'.'.join(map(_key, path))}]"
        yield from _entries(path, scalars, origins)
    for name, value in section.items():
        if _is_table(value):
            yield from _table((*path, name), value, origins)


def _entries(path: Keys, values: Mapping[str, Any], origins: Mapping[str, str]) -> list[str]:
    rows = []
    for name, value in values.items():
        dotted = ".".join((*path, name))
        origin = origins.get(dotted, "default").replace(COMMENT, " ").replace("\n", " ")
        if value is None and _default(path, name) is None:
            rows.append((f"# {_key(name)} =", origin))
        else:
            rows.append((f"{_key(name)} = {render(value)}", origin))
    width = min(max((len(text) for text, _ in rows), default=0), 48)
    return [f"{text.ljust(width)}{COMMENT}{origin}" for text, origin in rows]


def _is_table(value: Any) -> bool:
    return isinstance(value, Mapping)


def _default(path: Keys, name: str) -> Any:
    from ttf.config.schema import RunConfig

    node: Any = RunConfig()
    for part in (*path, name):
        node = getattr(node, part, None)
    return node


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else render(name)


def render(value: Any) -> str:
    # On one line; None is the word none, which `resolve` reads back.
    if value is None:
        return '"none"'
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else str(value)
    if isinstance(value, Mapping):
        inner = ", ".join(f"{_key(k)} = {render(v)}" for k, v in value.items())
        return f"{{ {inner} }}" if inner else "{}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(render, value))}]"
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")
