"""TOML as text: read from a file within limits, parsed, and the line of every key.

A configuration is a page or two. The limits are far above that; they keep a file that is something
else, or was made to harm, from taking minutes or gigabytes.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any, Final

from ttf.config.values import DEEPEST
from ttf.errors import ConfigError, EntryRefused, suggestion
from ttf.rundir.confined import open_named

Keys = tuple[str, ...]

MOST_BYTES: Final = 2**20
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


def text_of(path: Path) -> str:
    """Raises ConfigError with what to do."""
    try:
        data = _read_bytes(path)
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
    except OSError as error:
        raise ConfigError(f"Could not read {path}: {error.strerror}.") from error
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"{path} is not valid TOML: byte {error.start} is not UTF-8 text.",
            hint="A configuration is a text file. For data files, use --pairs and --bank.",
        ) from error


def _read_bytes(path: Path) -> bytes:
    if path.is_dir():
        raise IsADirectoryError
    try:
        with open_named(path) as file:
            data = file.read(MOST_BYTES + 1)
    except EntryRefused as error:  # a pipe or a device
        raise ConfigError(str(error), hint="Write the configuration to a file first.") from error
    if len(data) > MOST_BYTES:
        raise ConfigError(
            f"{path} is too large for a configuration: more than {MOST_BYTES:,} bytes.",
            hint="For data files, use --pairs and --bank.",
        )
    return data


def _nearby(path: Path) -> str:
    if not path.parent.is_dir():
        return f" The folder {path.parent} does not exist either."
    return suggestion(path.name, [p.name for p in path.parent.glob("*.toml")])


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
