"""Configuration as TOML: reading it with line numbers, writing it with the origin of every value.

`run.toml` in a run's folder is what `dump` writes; `resolve.load_run_toml` reads it back, origins
included.
"""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ttf.errors import ArtifactDamaged, ConfigError, suggestion
from ttf.rundir.confined import MOST_CONFIG_BYTES, read_named

if TYPE_CHECKING:
    from ttf.config.resolve import Resolved

Keys = tuple[str, ...]

_HEADER = re.compile(r"\s*(\[\[?)\s*(.+?)\s*\]\]?\s*(#.*)?$")
_KEY = re.compile(r"""\s*((?:[\w-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[\w-]+|"[^"]*"|'[^']*'))*)\s*=""")
_PART = re.compile(r"""[\w-]+|"[^"]*"|'[^']*'""")
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
    """Raises ConfigError with line and column if the text is not TOML."""
    text = _text(path)
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(
            f"{path} is not valid TOML: {error}.",
            hint=(
                "Strings need quotes, true and false are lower case, and a table starts with "
                "[section]."
            ),
        ) from error
    return Document(name=path.name, values=values, lines=_lines(text))


def _text(path: Path) -> str:
    try:
        if path.is_dir():
            raise IsADirectoryError(path)
        return read_named(path, MOST_CONFIG_BYTES).decode()
    except FileNotFoundError as error:
        raise ConfigError(
            f"There is no file {path}.{_nearby(path)}",
            hint=(
                "Without a file, ttf train uses the command-line options and the defaults: "
                "see ttf train --help."
            ),
        ) from error
    except IsADirectoryError as error:
        raise ConfigError(
            f"{path} is a folder. A configuration is a TOML file.",
            hint=f"To continue a run: ttf resume {path}. To repeat it: ttf train {path}/run.toml.",
        ) from error
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"{path} is not valid TOML: byte {error.start} is not UTF-8 text.",
            hint="A configuration is a text file. For data files, use --pairs and --bank.",
        ) from error
    except ArtifactDamaged as error:  # a pipe, a device, or far too large
        raise ConfigError(
            str(error), hint="A configuration is a text file. Write it to one, and name that."
        ) from error
    except OSError as error:
        raise ConfigError(f"Could not read {path}: {error.strerror}.") from error


def _nearby(path: Path) -> str:
    if not path.parent.is_dir():
        return f" The folder {path.parent} does not exist either."
    return suggestion(path.name, [p.name for p in path.parent.glob("*.toml")])


def _lines(text: str) -> dict[Keys, int]:
    # The line of every key; at worst, text in a multi-line string loses a line number.
    found: dict[Keys, int] = {}
    table: Keys = ()
    counts: dict[Keys, int] = {}
    quote = ""
    for number, line in enumerate(text.splitlines(), start=1):
        inside, quote = bool(quote), _open_quote(line, quote)
        if inside:
            continue
        if (key := _KEY.match(line)) is not None:
            found.setdefault(table + _split(key[1]), number)
        elif (header := _HEADER.match(line)) is not None:
            table = _split(header[2])
            if header[1] == "[[":
                counts[table] = counts.get(table, -1) + 1
                table = (*table, str(counts[table]))
            found.setdefault(table, number)
    return found


def _open_quote(line: str, quote: str) -> str:
    """The multi-line quote that is open after `line`, given the one open before it."""
    for mark in re.findall(r'"""|\'\'\'', line):
        if not quote:
            quote = mark
        elif quote == mark:
            quote = ""
    return quote


def _split(dotted: str) -> Keys:
    return tuple(part.strip("\"'") for part in _PART.findall(dotted))


# --- writing ---------------------------------------------------------------------------------


def dump(resolved: Resolved) -> str:
    """run.toml: valid TOML, every value followed by its origin."""
    tree = resolved.config.model_dump()
    lines = [
        "# The complete configuration of this run. A comment shows where each value comes from.",
        "# To start a new run with this configuration: ttf train run.toml --out NEW_FOLDER",
    ]
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
