"""Every key of the configuration with its description: for `ttf config explain`, for suggestions in
messages, and for docs/configuration.md.

All of it comes from where a key is declared: `schema`, or the options of a plugin.
"""

from __future__ import annotations

import difflib
import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ttf.config.declare import DURATION_MARK
from ttf.config.resolve import FLAGS, NEGATIONS, Keys
from ttf.config.schema import RunConfig
from ttf.config.toml import render
from ttf.config.values import shown
from ttf.contracts import Kind
from ttf.errors import ConfigError, TtfError
from ttf.host import installed, options, plugins
from ttf.text.numbers import bound

JsonSchema = Mapping[str, Any]

# Kinds of plugins with options, and the sections for them.
_SECTIONS: Mapping[Kind, Sequence[str]] = {
    "tower": ("tower.query", "tower.doc"),
    "miner": ("miner.{name}",),
    "device": ("device.{name}",),
}


class UnknownKey(ConfigError):
    """No key or section has this name; `closest` holds one that is similar, or none."""

    def __init__(self, name: str, closest: Sequence[str]) -> None:
        self.closest = tuple(closest)
        meant = "".join(f" Did you mean {close!r}?" for close in closest)
        super().__init__(
            f"No key or section named {shown(name)}.{meant}",
            hint="All sections: ttf config explain",
        )


@dataclass(frozen=True, kw_only=True)
class Key:
    """One key, or one option of a plugin."""

    path: str
    takes: str
    default: str
    """As TOML writes it; "" if the key must be given."""
    unit: str
    description: str
    flag: str = ""
    plugin: str = ""
    """For an option: "tower.gru"."""
    listed: bool = False
    """One of several tables of that name: `[[gates]]`."""

    @property
    def name(self) -> str:
        return self.path.rpartition(".")[2]


@dataclass(frozen=True, kw_only=True)
class Section:
    path: str
    description: str
    keys: tuple[Key, ...]
    plugin: str = ""


def sections() -> tuple[Section, ...]:
    """The sections that the core declares; "" holds the keys outside any section."""
    document = _declared()
    return tuple(_sections("", document, document, {}))


@functools.cache
def _declared() -> JsonSchema:
    """Made once: it takes 50 ms, and every message about a key asks for it."""
    return RunConfig.model_json_schema()


def plugin_sections(*, only_ours: bool = False) -> tuple[Section, ...]:
    """The options of every installed plugin that can be loaded; of towers, for queries and for
    documents."""
    found: list[Section] = []
    for kind, paths in _SECTIONS.items():
        names = installed.ours(kind) if only_ours else installed.choices(kind)
        for name in names:
            schema = options_schema(kind, name)
            for path in paths if schema and schema.get("properties") else ():
                found += _plugin_section(path.format(name=name), f"{kind}.{name}", schema or {})
    return tuple(found)


def options_schema(kind: Kind, name: str) -> JsonSchema | None:
    """The JSON Schema of a plugin's options; None if the plugin cannot be loaded."""
    try:
        factory = plugins.load(kind, name)
    except TtfError:
        return None  # `ttf plugins show` says why
    schema: JsonSchema = options.model(factory.options_type).model_json_schema()
    return schema


def _plugin_section(path: str, plugin: str, schema: JsonSchema) -> Iterator[Section]:
    keys = tuple(
        _key(f"{path}.{name}", about, schema, plugin=plugin)
        for name, about in schema["properties"].items()
    )
    yield Section(path=path, description=f"Options of {plugin}.", keys=keys, plugin=plugin)


def _sections(
    path: str, section: JsonSchema, document: JsonSchema, defaults: Mapping[str, Any]
) -> Iterator[Section]:
    keys: list[Key] = []
    inner: list[Section] = []
    described = section.get("description", "") if path else "Keys without a section."
    for name, about in section.get("properties", {}).items():
        below = f"{path}.{name}" if path else name
        about = {**about, "default": defaults[name]} if name in defaults else about
        table = _table_of(about, document)
        if table is None:
            keys.append(_key(below, about, document))
        else:
            told = {**table, "description": about.get("description", table.get("description", ""))}
            inner += _sections(below, told, document, about.get("default") or {})
        listed = _table_of(about.get("items", {}), document)
        if listed is not None:
            inner += [_as_listed(one) for one in _sections(below, listed, document, {})]
    if keys:
        yield Section(path=path, description=described, keys=tuple(keys))
    yield from inner


def _as_listed(section: Section) -> Section:
    return replace(section, keys=tuple(replace(key, listed=True) for key in section.keys))


def _table_of(about: JsonSchema, document: JsonSchema) -> JsonSchema | None:
    """The section that a property stands for; None for a value."""
    found = _resolved(about, document)
    return found if "properties" in found else None


def _resolved(about: JsonSchema, document: JsonSchema) -> JsonSchema:
    reference = str(about.get("$ref", ""))
    found: JsonSchema = document["$defs"][reference.rpartition("/")[2]] if reference else about
    return found


def _key(path: str, about: JsonSchema, document: JsonSchema, *, plugin: str = "") -> Key:
    flags = {key: flag for flag, key in (*FLAGS.items(), *NEGATIONS.items())}
    return Key(
        path=path,
        takes=_takes(about, document),
        default=_default(about["default"]) if "default" in about else "",
        unit=about.get("unit", ""),
        description=about.get("description", ""),
        flag=flags.get(path, ""),
        plugin=plugin,
    )


def _default(value: Any) -> str:
    return "none" if value is None else render(value)


# --- what a key takes, in words ------------------------------------------------------------------


def _takes(about: JsonSchema, document: JsonSchema) -> str:
    if "anyOf" in about:
        return ", or ".join(_takes(one, document) for one in about["anyOf"])
    if "const" in about:
        return repr(about["const"])
    if "enum" in about:
        *first, last = map(repr, about["enum"])
        return f"{', '.join(first)} or {last}"
    if "plugin" in about and about.get("type") == "string":
        return f"{_auto(about)}the name of a {about['plugin']}: {_choices(about['plugin'])}"
    if "plugin" in about:
        return f"a list of {about['plugin']} names: {_choices(about['plugin'])}"
    if "$ref" in about:
        return f"a table of {', '.join(_resolved(about, document)['properties'])}"
    match about.get("type"):
        case "integer":
            return f"a whole number{_bounds(about)}"
        case "number":
            as_text = ", or text like '90s', '10m' or '2h'" if DURATION_MARK in about else ""
            return f"a number{_bounds(about)}{as_text}"
        case "boolean":
            return "true or false"
        case "null":
            return "none"
        case "array":
            return f"a list; each item: {_takes(about.get('items', {}), document)}"
        case "object":
            return "a table of names"
    return "text"


def _auto(about: JsonSchema) -> str:
    return "'auto' or " if about.get("default") == "auto" else ""


def _choices(kind: Kind) -> str:
    return ", ".join(installed.choices(kind))


def _bounds(about: JsonSchema) -> str:
    low, above = about.get("minimum"), about.get("exclusiveMinimum")
    high, below = about.get("maximum"), about.get("exclusiveMaximum")
    if low is not None and high is not None:
        return f" from {bound(low)} to {bound(high)}"
    words = [
        f"{text} {bound(value)}"
        for text, value in (
            ("at least", low),
            ("above", above),
            ("at most", high),
            ("below", below),
        )
        if value is not None
    ]
    return f" {' and '.join(words)}" if words else ""


# --- finding one ---------------------------------------------------------------------------------


def elsewhere(name: str) -> list[str]:
    """The keys that end in `name`, for somebody who left out the section; without the options of
    plugins that others wrote, because these would have to be imported."""
    return _paths_by_name().get(name, [])


def top_sections() -> list[str]:
    """The names of the sections without a dot."""
    return list(RunConfig.model_fields)


def in_section(section: str, name: str) -> bool:
    return any(path == f"{section}.{name}" for path in elsewhere(name))


def is_key(dotted: str) -> bool:
    """True for a key of the core, and for an option of our plugins."""
    return dotted in elsewhere(dotted.rpartition(".")[2])


@functools.cache
def _own_sections() -> tuple[Section, ...]:
    return (*sections(), *plugin_sections(only_ours=True))


@functools.cache
def _known_paths() -> frozenset[str]:
    return frozenset(name for section in _own_sections() for name in _names_of(section))


@functools.cache
def _paths_by_name() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for section in _own_sections():
        for key in section.keys:
            if key.path not in found.setdefault(key.name, []):
                found[key.name].append(key.path)
    return found


def nearest(wrong: Iterable[Keys]) -> str:
    """The first of these keys, or the section that it would be in; "" if none exists."""
    for path in wrong:
        for end in range(len(path), 0, -1):
            if ".".join(path[:end]) in _known_paths():
                return ".".join(path[:end])
    return ""


def find(what: str) -> list[Section]:
    """The sections of a key, a flag, a section or a plugin, with only the keys that are meant.

    Raises UnknownKey with the closest name.
    """
    everywhere = (*sections(), *plugin_sections())
    wanted = FLAGS.get(what) or NEGATIONS.get(what) or what.strip("[]").strip()
    if not wanted.startswith("tower.doc"):  # its options are those of tower.query
        everywhere = tuple(s for s in everywhere if not (s.plugin and s.path == "tower.doc"))
    whole = [s for s in everywhere if wanted in (s.path, s.plugin)]
    whole = whole or [s for s in everywhere if s.path.startswith(f"{wanted}.")]
    if whole and wanted:
        return [s for s in whole if not s.plugin] or whole
    found = [
        replace(section, keys=keys)
        for section in everywhere
        if (keys := tuple(key for key in section.keys if wanted in (key.path, key.name)))
    ]
    if not found:
        known = [name for section in everywhere for name in _names_of(section)]
        raise UnknownKey(what, difflib.get_close_matches(what[:100], known, n=1))
    exact = [section for section in found if any(key.path == wanted for key in section.keys)]
    return exact or found


def _names_of(section: Section) -> Iterator[str]:
    yield from filter(None, [section.path, section.plugin])
    for key in section.keys:
        yield from (key.path, key.name)
