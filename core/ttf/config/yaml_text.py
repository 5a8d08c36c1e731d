"""Configuration as YAML: parsed with line numbers, within the limits of TOML (`ttf.config.toml`).

Only what a configuration needs is read: tables, lists and plain values. Anchors, aliases, tags and a
second document are refused: a few lines of them can stand for gigabytes, or for code.

Values are read as PyYAML reads them, which is what the file was written for, with one exception:
`1e-3` is a number, as in YAML 1.2 (YAML 1.1 and PyYAML make it a text). So yes, no, on and off are
true and false. What the two versions read differently otherwise (010, 1:30, dates) stays a text,
which no key takes for a number.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NoReturn

from ttf.config.toml import MOST_VALUES, Document, Keys
from ttf.config.values import DEEPEST, shown
from ttf.errors import ConfigError

_HINT: Final = "For the same configuration as TOML: ttf config convert FILE"
_WORDS: Final = {
    **dict.fromkeys(("true", "yes", "on"), True),
    **dict.fromkeys(("false", "no", "off"), False),
    **dict.fromkeys(("", "~", "null"), None),
}
_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9_]*)")
_HEX = re.compile(r"0x[0-9a-fA-F_]+")
_FLOAT = re.compile(r"[-+]?(?:[0-9][0-9_]*\.?[0-9_]*|\.[0-9][0-9_]*)(?:[eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"([-+]?)\.(inf|nan)", re.IGNORECASE)
_DIGITS = re.compile(r"[-+]?[0-9_.]+")
_MOST_DIGITS: Final = 999


def read(text: str, path: Path) -> Document:
    """`text` is that of `path`. Raises ConfigError with line and column if it is not YAML, or is
    beyond its limits."""
    try:
        import yaml
    except ImportError as error:
        raise ConfigError(
            f"{path} is YAML, and PyYAML, which reads it, is not installed.",
            hint='pip install pyyaml (or "twotower[yaml]"). A configuration may also be TOML.',
        ) from error
    reader = _Reader(path)
    try:
        values = reader.document(yaml.parse(text, Loader=yaml.SafeLoader))
    except yaml.YAMLError as error:
        raise ConfigError(
            f"{path} is not valid YAML: {_told(error)}.",
            hint="Put a colon and a space between a key and its value. Indent the lines of a section "
            "with spaces, never with tabs. Text that contains a colon or # needs quotes.",
        ) from error
    if reader.problems:
        raise ConfigError(f"{path} is not a configuration:", problems=reader.problems, hint=_HINT)
    return Document(name=path.name, values=values, lines=reader.lines)


def _told(error: Any) -> str:
    mark = getattr(error, "problem_mark", None)
    if mark is None:
        return str(error).partition("\n")[0].rstrip(".")
    context = f"{error.context}, " if error.context else ""
    return f"{context}{error.problem} (at line {mark.line + 1}, column {mark.column + 1})"


class _Reader:
    """Builds values from the parser's events: no object is made before its limits are checked."""

    def __init__(self, path: Path) -> None:
        self.lines: dict[Keys, int] = {}
        self.problems: list[str] = []
        self._path = path
        self._events: Iterator[Any] = iter(())
        self._values = 0

    def document(self, events: Iterator[Any]) -> dict[str, Any]:
        import yaml

        self._events = events
        next(events)  # the stream starts
        if isinstance(next(events), yaml.StreamEndEvent):
            return {}
        first = next(events)
        values = self._value(first, (), 0)
        next(events)  # the document ends
        after = next(events)
        if not isinstance(after, yaml.StreamEndEvent):
            self._refuse(after, "a second document starts here")
        if values is None:
            return {}
        if not isinstance(values, dict):
            self._refuse(first, "it must be a table of keys (key: value)")
        # A section whose keys are all commented out is an empty one.
        return {key: {} if value is None else value for key, value in values.items()}

    def _value(self, event: Any, path: Keys, depth: int) -> Any:
        import yaml

        self._values += 1
        if isinstance(event, yaml.AliasEvent) or event.anchor is not None:
            self._refuse(
                event, f"anchors and aliases (&{event.anchor}) are not read: repeat the value"
            )
        if event.tag is not None:
            self._refuse(event, f"tags ({shown(event.tag)}) are not read")
        if self._values > MOST_VALUES:
            self._refuse(event, f"it has more than {MOST_VALUES:,} values")
        if depth > DEEPEST:
            self._refuse(event, f"lists and tables are nested more than {DEEPEST} deep")
        if isinstance(event, yaml.ScalarEvent):
            return event.value if event.style else self._plain(event)
        if isinstance(event, yaml.SequenceStartEvent):
            return self._list(path, depth)
        return self._table(path, depth)

    def _list(self, path: Keys, depth: int) -> list[Any]:
        import yaml

        items: list[Any] = []
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            below = (*path, str(len(items)))
            self.lines[below] = _line(event)
            items.append(self._value(event, below, depth + 1))
        return items

    def _table(self, path: Keys, depth: int) -> dict[str, Any]:
        import yaml

        table: dict[str, Any] = {}
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            if not isinstance(event, yaml.ScalarEvent) or event.anchor or event.tag:
                self._refuse(event, "a key must be a plain word")
            below = (*path, event.value)
            value_event = next(self._events)
            first = self.lines.setdefault(below, _line(event))
            value = self._value(value_event, below, depth + 1)
            if event.value in table:
                self.problems.append(
                    f"{self._place(event)}: the key {shown(event.value)} is given twice (first in "
                    f"line {first})"
                )
            table[event.value] = value
        return table

    def _plain(self, event: Any) -> Any:
        text: str = event.value
        if (word := text.lower()) in _WORDS:
            return _WORDS[word]
        if len(text) > _MOST_DIGITS:
            if _DIGITS.fullmatch(text):
                self._refuse(event, "a number has 1,000 digits or more")
            return text
        try:
            return _number(text)
        except ValueError:
            return text

    def _refuse(self, event: Any, text: str) -> NoReturn:
        raise ConfigError(f"{self._place(event)}: {text}.", hint=_HINT)

    def _place(self, event: Any) -> str:
        return f"{self._path.name}:{_line(event)}"


def _line(event: Any) -> int:
    return int(event.start_mark.line) + 1


def _number(text: str) -> int | float:
    """Raises ValueError if this is none in one of the two versions of YAML, or another one."""
    if _INTEGER.fullmatch(text):
        return int(text)
    if _HEX.fullmatch(text):
        return int(text, 16)
    if (found := _NOT_FINITE.fullmatch(text)) is not None:
        return float(found[1] + found[2])
    if _FLOAT.fullmatch(text) and not text.lstrip("+-").isdigit():  # 010 is 8 in YAML 1.1
        return float(text)
    raise ValueError(text)
