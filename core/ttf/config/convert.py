"""A configuration with the names of another program, written with the keys of ttf.

What has no counterpart is never dropped silently: it is named, with the reason, and stays in the
file as a comment.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ttf.config import files, reference, toml
from ttf.config.answers import one_of
from ttf.config.resolve import PATHS, Keys, Layer, leaves, resolve
from ttf.config.synonyms import SAME_HERE, Untranslatable, meaning, value_here, words
from ttf.config.values import DEEPEST, shortened, shown, too_deep
from ttf.errors import ConfigError

_NOT_KNOWN: Final = "no key of ttf is known for it"


@dataclass(frozen=True, kw_only=True)
class Left:
    """A setting of the other program without a counterpart."""

    place: str
    name: str
    value: Any
    reason: str

    def __str__(self) -> str:
        return f"{self.place}: {shortened(self.name)} = {shown(self.value)}: {self.reason}"


@dataclass(kw_only=True)
class Converted:
    values: dict[Keys, Any] = field(default_factory=dict)
    origins: dict[Keys, str] = field(default_factory=dict)
    needless: list[Left] = field(default_factory=list)
    """Left out, and a run computes the same without it."""
    missing: list[Left] = field(default_factory=list)
    """Could not be translated."""
    problems: list[str] = field(default_factory=list)
    """Values that their keys do not take."""

    def tree(self) -> dict[str, Any]:
        tree: dict[str, Any] = {}
        for path, value in self.values.items():
            node = tree
            for part in path[:-1]:
                node = node.setdefault(part, {})
            node[path[-1]] = value
        return tree

    def text(self) -> str:
        head = ("The keys of ttf, with the place and name that each value had.",)
        origins = {".".join(path): origin for path, origin in self.origins.items()}
        lines = [f"# not translated: {left}" for left in self.missing]
        lines += [f"# not needed: {left}" for left in self.needless]
        rest = "\n".join(map(_printable, lines))
        return toml.written(self.tree(), origins, head) + (f"\n{rest}\n" if rest else "")


def convert(path: Path, folder: Path) -> Converted:
    """`folder`: that of the file that will be written; relative paths of another one become
    absolute. Raises ConfigError if the file cannot be read."""
    document = files.read(path)
    out = Converted()
    taken: dict[Keys, str] = {}
    for leaf, value in leaves((), document.values):
        if len(leaf) > DEEPEST:
            raise too_deep()
        place, name = document.origin(leaf), ".".join(leaf)
        if isinstance(value, Mapping):  # an empty section
            continue
        try:
            key, here = _translated(leaf, value)
            if key[0] == "gates" and not (key == ("gates",) and _is_list_of_tables(here)):
                raise Untranslatable("gates is a list of tables with the keys at and need")
        except Untranslatable as error:
            lefts = out.needless if _is_needless(leaf, value) else out.missing
            lefts.append(Left(place=place, name=name, value=value, reason=str(error)))
            continue
        if key in out.values and out.values[key] != here:
            reason = f"{'.'.join(key)} already has the value of {taken[key]}"
            out.missing.append(Left(place=place, name=name, value=value, reason=reason))
            continue
        out.values.setdefault(key, _path_from(path.absolute().parent, folder, key, here))
        origin = place if key == leaf else f"{place} ({shortened(name)})"
        out.origins.setdefault(key, _printable(origin))
        taken.setdefault(key, f"{name} ({place})")
    out.problems = _problems(out)
    return out


def _printable(comment: str) -> str:
    # A name may hold what would end a comment, or what no TOML file may hold.
    return "".join(c if c.isprintable() else " " for c in comment)


def _translated(leaf: Keys, value: Any) -> tuple[Keys, Any]:
    """Raises Untranslatable."""
    if reference.is_key(".".join(leaf)) or (leaf[:2] == ("data", "names") and len(leaf) == 3):
        return leaf, value
    found = meaning(leaf)
    if found is not None:
        if found.reason:
            raise Untranslatable(found.reason)
        return tuple(found.key.split(".")), value_here(leaf[-1], found.key, value)
    elsewhere = reference.elsewhere(words(leaf[-1]))
    if key := one_of(elsewhere, leaf):
        return tuple(key.split(".")), value_here(leaf[-1], key, value)
    if _is_plugin_option(leaf):
        return leaf, value
    raise Untranslatable(f"it may be {' or '.join(elsewhere)}" if elsewhere else _NOT_KNOWN)


def _is_list_of_tables(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, Mapping) for item in value)


def _is_needless(leaf: Keys, value: Any) -> bool:
    found = meaning(leaf)
    if found is None or found.key:
        return False
    return found.needless or (isinstance(value, str) and words(value) in SAME_HERE)


def _is_plugin_option(leaf: Keys) -> bool:
    # Whether the option exists says the plugin, when the result is checked.
    from ttf.host import installed

    if len(leaf) != 3:
        return False
    if leaf[0] not in ("miner", "device"):
        return leaf[:2] in (("tower", "query"), ("tower", "doc"))
    return leaf[1] in installed.choices("miner" if leaf[0] == "miner" else "device")


def _path_from(source: Path, target: Path, key: Keys, value: Any) -> Any:
    if ".".join(key) not in PATHS or not isinstance(value, str) or not value or "://" in value:
        return value
    if source == target or value.startswith("~"):
        return value
    return os.path.normpath(source / value)


def _problems(out: Converted) -> list[str]:
    layer = Layer()
    for path, value in out.values.items():
        layer.add(path, value, out.origins[path])
    try:
        resolve(layer)
    except ConfigError as error:
        return list(error.problems) or [str(error)]
    return []
