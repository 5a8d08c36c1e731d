"""Configuration as TOML: parsing it with line numbers, writing it with the origin of every value.

A configuration is a page or two. The limits are far above that; they keep a text that is something
else, or was made to harm, from taking minutes or gigabytes.

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

from ttf.config.values import DEEPEST
from ttf.errors import ConfigError

if TYPE_CHECKING:
    from ttf.config.resolve import Resolved

Keys = tuple[str, ...]

COMMENT = "  # "
MOST_VALUES: Final = 2000
_LONGEST_LINE: Final = 2000

# Strings and comments; a string that never ends lasts until the end, so that one pass is enough.
_OPAQUE = re.compile(
    r'"""(?:\\.|[^\\])*?(?:"""|\Z)|'
    r"'''.*?(?:'''|\Z)|"
    r'"(?:\\.|[^"\\\n])*"?|'
    r"'[^'\n]*'?|#[^\n]*",
    re.DOTALL,
)
_LONG_KEY = re.compile(rf"(?<![\w-])(?:[\w-]++[ \t]*+\.[ \t]*+){{{DEEPEST}}}")
_LONG_NUMBER = re.compile(r"[0-9_]{1000}")
_HEADER = re.compile(r"\s*(\[\[?)\s*(.+?)\s*\]\]?\s*(#.*)?$")
_KEY = re.compile(r"""\s*((?:[\w-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[\w-]+|"[^"]*"|'[^']*'))*)\s*=""")
_PART = re.compile(r"""[\w-]+|"[^"]*"|'[^']*'""")


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


def read(text: str, path: Path) -> Document:
    """`text` is that of `path`. Raises ConfigError with line and column if it is not TOML, or is
    beyond its limits."""
    try:
        values = parse(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(
            f"{path} is not valid TOML: {error}.",
            hint=_way_out(str(error)),
        ) from error
    except ValueError as error:
        raise ConfigError(
            f"{path} is not a configuration: {error}.",
            hint="For a configuration with every key, see: ttf config show",
        ) from error
    return Document(name=path.name, values=values, lines=key_lines(text))


def _way_out(said: str) -> str:
    if said.startswith(("Cannot overwrite", "Cannot declare", "Cannot redefine", "Duplicate")):
        return "Every key and every [section] may be in the file once. Remove one of them."
    return "Strings need quotes, true and false are lower case, and a table starts with [section]."


def parse(text: str) -> dict[str, Any]:
    """Raises ValueError (TOMLDecodeError is one) if this is no TOML, or TOML beyond the limits."""
    _refuse_excess(text)
    return tomllib.loads(text)


def _refuse_excess(text: str) -> None:
    bare = _OPAQUE.sub("s", text)
    depth = 0
    for bracket in re.findall(r"[\[\]{}]", bare):
        depth += 1 if bracket in "[{" else -1
        if depth > DEEPEST:
            raise ValueError(f"lists and tables are nested more than {DEEPEST} deep")
    if _LONG_KEY.search(bare):
        raise ValueError(f"a key has more than {DEEPEST} parts")
    if _LONG_NUMBER.search(bare):
        raise ValueError("a number has 1,000 digits or more")
    if sum(map(bare.count, "=,[")) > MOST_VALUES:
        raise ValueError(f"it has more than {MOST_VALUES:,} values")


# --- lines ---------------------------------------------------------------------------------------


def key_lines(text: str) -> dict[Keys, int]:
    """The line of every key; at worst, text in a multi-line string loses a line number."""
    found: dict[Keys, int] = {}
    table: Keys = ()
    counts: dict[Keys, int] = {}
    quote = ""
    for number, line in enumerate(text.splitlines(), start=1):
        inside, quote = bool(quote), _open_quote(line, quote)
        if inside or len(line) > _LONGEST_LINE:
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


_HEAD: Final = (
    "The complete configuration of this run. A comment shows where each value comes from.",
    "To start a new run with this configuration: ttf train run.toml --out NEW_FOLDER",
)


def dump(resolved: Resolved, head: Sequence[str] = _HEAD) -> str:
    """run.toml: valid TOML, every value followed by its origin."""
    return written(resolved.config.model_dump(), resolved.origins, head)


def written(tree: Mapping[str, Any], origins: Mapping[str, str], head: Sequence[str]) -> str:
    """Valid TOML, every value followed by its origin."""
    lines = [f"# {line}" for line in head]
    scalars = {k: v for k, v in tree.items() if not _is_table(v) and k != "gates"}
    lines += ["", *_entries((), scalars, origins)] if scalars else []
    for name, section in tree.items():
        if _is_table(section):
            lines += _table((name,), section, origins)
    for gate in tree.get("gates", ()):
        origin = origins.get("gates", "default")
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
