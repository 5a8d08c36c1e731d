"""From defaults, a file, --set and flags to one validated configuration, and who said what.

Layers, each over the one before: default < TOML file < --set < flag < --safe < remedies. Everything
that is wrong is collected and raised as one ConfigError, each problem with the place it was written
at.
"""

from __future__ import annotations

import json
import math
import os
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ttf.config import toml
from ttf.errors import ConfigError, suggestion

if TYPE_CHECKING:
    from ttf.config.schema import RunConfig
    from ttf.rundir.request import Change

Keys = tuple[str, ...]

FLAGS: Mapping[str, str] = {
    "--pairs": "data.pairs",
    "--bank": "data.bank",
    "--context": "data.context",
    "--storage": "data.storage",
    "--tower": "tower.query.name",
    "--doc-tower": "tower.doc.name",
    "--miner": "miner.name",
    "--isolation": "miner.isolation",
    "--memory-bank": "loss.memory_bank",
    "--epochs": "train.epochs",
    "--steps": "train.steps",
    "--batch-size": "train.batch_size",
    "--accum": "train.accumulate",
    "--lr": "train.lr",
    "--seed": "train.seed",
    "--init": "train.init",
    "--device": "device.name",
    "--threads": "device.threads",
    "--precision": "device.precision",
}
"""Every flag of `ttf train` that sets a key; Python's overrides use the same names (`lr=`)."""

NEGATIONS: Mapping[str, str] = {"--no-remedies": "supervise.remedies"}
"""Flags that set a key to false; one that is not given (false itself) says nothing."""

PATHS = frozenset({"data.pairs", "data.bank", "data.context", "train.init"})
_TOWERS = {"query": "gru", "doc": "identity"}


@dataclass(frozen=True, kw_only=True)
class Resolved:
    """A valid configuration and the origin of every value, by dotted key."""

    config: RunConfig
    origins: Mapping[str, str]
    notes: tuple[str, ...] = ()
    """What a higher layer made of a lower one, to be said aloud."""
    samples_per_step: int | None = None
    """Of the run that goes on with this configuration: remedies may cut its steps, not change
    them. None: a new run."""


@dataclass(frozen=True, kw_only=True)
class Layer:
    """The values of one source, as leaves."""

    values: dict[Keys, Any] = field(default_factory=dict)
    origins: dict[Keys, str] = field(default_factory=dict)
    places: dict[Keys, str] = field(default_factory=dict)
    """Where tables begin, and what stands inside [[tables]]: finer than the leaves' origins."""

    def add(self, path: Keys, value: Any, origin: str) -> None:
        for leaf, item in _leaves(path, value):
            self.values[leaf] = item
            self.origins[leaf] = origin


@dataclass(kw_only=True)
class Draft:
    """What the layers say together, before anything is validated."""

    tree: dict[str, Any] = field(default_factory=dict)
    origins: dict[Keys, str] = field(default_factory=dict)
    places: dict[Keys, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    renamed: bool = False
    """Something that was written under an earlier name has its present one now."""

    def apply(self, layer: Layer) -> None:
        for side in _TOWERS:
            self._change_tower(side, layer)
        for path, value in layer.values.items():
            self._put(path, value, layer.origins[path])
        self.places.update(layer.places)

    def problem(self, path: Sequence[str], text: str) -> None:
        """`run.toml:12: section.key: text`; the place is left out for defaults."""
        origin = self.origin(tuple(path))
        exact = self.places.get(tuple(path), origin)
        if exact.partition(":")[0] == origin.partition(":")[0]:
            origin = exact
        place = "" if origin == "default" else f"{origin}: "
        self.problems.append(f"{place}{'.'.join(path)}: {text}" if path else f"{place}{text}")

    def rename(self, path: Keys, name: str) -> None:
        """What is written at `path` is read as its neighbour `name`."""
        section = self.section(*path[:-1])
        self.renamed = True
        self._put((*path[:-1], name), section.pop(path[-1]), self.origin(path))

    def origin(self, path: Keys) -> str:
        for end in range(len(path), 0, -1):
            if path[:end] in self.origins:
                return self.origins[path[:end]]
        below = [o for keys, o in self.origins.items() if path and keys[: len(path)] == path]
        return below[0] if below else "default"

    def section(self, *path: str) -> dict[str, Any]:
        """The table at `path`; empty where there is none or it is no table."""
        node: Any = self.tree
        for part in path:
            node = node.get(part, {}) if isinstance(node, dict) else {}
        return node if isinstance(node, dict) else {}

    def _put(self, path: Keys, value: Any, origin: str) -> None:
        node = self.tree
        for depth, part in enumerate(path[:-1], start=1):
            below = node.setdefault(part, {})
            if not isinstance(below, dict):
                text = f"is both a value ({below!r}) and a table of keys ({path[depth]})"
                self.problem(path[:depth], text)
                return
            node = below
        if isinstance(value, dict) and isinstance(node.get(path[-1]), dict):
            return  # an empty table says nothing about one that has keys
        node[path[-1]] = value
        self.origins = {p: o for p, o in self.origins.items() if p[: len(path)] != path}
        self.origins[path] = origin

    def _change_tower(self, side: str, layer: Layer) -> None:
        """A tower chosen anew does not take over the options of the one it replaces. Options
        given by --set beside --tower were meant for it, though: both are on one command line."""
        name = layer.values.get(("tower", side, "name"))
        options = self.section("tower", side)
        before = options.get("name")
        if name is None or name == before:
            return
        left_out = [
            key for key in options if key != "name" and self.origin(("tower", side, key)) != "--set"
        ]
        for key in left_out:
            del options[key]
            self.origins = {p: o for p, o in self.origins.items() if p[:3] != ("tower", side, key)}
        if left_out:
            self.notes.append(
                f"tower.{side} is now {name!r} ({layer.origins['tower', side, 'name']}): "
                f"the options written for {before!r} are left out ({', '.join(left_out)})."
            )


def resolve(
    file: Path | Mapping[str, Any] | None = None,
    sets: Sequence[str] = (),
    flags: Mapping[str, Any] | None = None,
    *,
    safe: bool = False,
    overlay: Mapping[str, Change] | None = None,
    plugins: bool = True,
) -> Resolved:
    """Raises ConfigError with all problems at once. `flags` are named as on the command line
    (`--lr`, `lr`) or by key (`train.lr`); `overlay` holds remedies by key, each with its own
    origin; without `plugins`, names and options are not checked."""
    from ttf.config import check
    from ttf.config.safe import make_safe

    draft = Draft(tree={"tower": {side: {"name": name} for side, name in _TOWERS.items()}})
    draft.apply(_file_layer(file))
    draft.apply(_set_layer(sets, draft.problems))
    draft.apply(_flag_layer(flags or {}, draft.problems))
    if safe:
        make_safe(draft)
    draft.apply(_overlay_layer(overlay or {}))
    _tidy(draft)
    config = check.schema(draft)
    if plugins:
        check.plugins(draft)
        if config is not None and draft.renamed:
            config = check.schema(draft)
    if config is None or draft.problems:
        count = len(draft.problems)
        raise ConfigError(
            f"The configuration has {count} problem{'s' * (count > 1)}:", problems=draft.problems
        )
    return Resolved(config=config, origins=_origins(config, draft), notes=tuple(draft.notes))


def _file_layer(file: Path | Mapping[str, Any] | None) -> Layer:
    layer = Layer()
    if isinstance(file, Mapping):
        for key, value in file.items():
            layer.add((key,), value, "argument")
        _anchor(layer, Path.cwd())
    elif file is not None:
        document = toml.read(Path(file))
        for path, value in _leaves((), document.values):
            layer.add(path, value, document.origin(path))
        layer.places.update({path: document.origin(path) for path in document.lines})
        _anchor(layer, Path(file).absolute().parent)
    return layer


def _set_layer(sets: Sequence[str], problems: list[str]) -> Layer:
    layer = Layer()
    for text in sets:
        dotted, equals, value = text.partition("=")
        path = tuple(part.strip().strip("\"'") for part in dotted.split("."))
        if not equals or not all(path):
            problems.append(f"--set {text}: write it as key.path=value, e.g. train.lr=0.001")
        else:
            layer.add(path, parse_value(value), "--set")
    _anchor(layer, Path.cwd())
    return layer


def _flag_layer(flags: Mapping[str, Any], problems: list[str]) -> Layer:
    layer = Layer()
    for name, value in flags.items():
        flag = f"--{name.lstrip('-').replace('_', '-')}"
        key = name if "." in name else FLAGS.get(flag) or NEGATIONS.get(flag)
        origin = name if name.startswith("-") else f"{name}="
        if key is None:
            known = [flag.lstrip("-").replace("-", "_") for flag in (*FLAGS, *NEGATIONS)]
            problems.append(f"{name}: no such option.{suggestion(name, known)}")
        elif flag not in NEGATIONS:
            layer.add(tuple(key.split(".")), _plain(value), origin)
        elif value:
            layer.add(tuple(key.split(".")), False, origin)
    _anchor(layer, Path.cwd())
    return layer


def _overlay_layer(overlay: Mapping[str, Change]) -> Layer:
    layer = Layer()
    for key, change in overlay.items():
        layer.add(tuple(key.split(".")), change.value, change.origin)
    return layer


def parse_value(text: str) -> Any:
    """A value as TOML would read it; what is no TOML (a bare word, a path) is a string.

    >>> parse_value("0.1"), parse_value("[1, 10]"), parse_value("hnswlib")
    (0.1, [1, 10], 'hnswlib')
    """
    try:
        parsed = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        return text.strip()
    return parsed["value"] if len(parsed) == 1 else text.strip()


def _leaves(path: Keys, value: Any) -> Iterator[tuple[Keys, Any]]:
    """Every value with its path; an empty table is a leaf, so that its name is looked at."""
    if isinstance(value, Mapping) and (value or not path):
        for key, item in value.items():
            yield from _leaves((*path, str(key)), item)
    else:
        yield path, _plain(value)


def _plain(value: Any) -> Any:
    """TOML's own types from what Python callers pass."""
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return os.fspath(value) if isinstance(value, os.PathLike) else value


def _anchor(layer: Layer, folder: Path) -> None:
    """Makes paths absolute: in a file they are relative to its folder, elsewhere to where we are."""
    for path, value in layer.values.items():
        if ".".join(path) in PATHS and isinstance(value, str) and value and "://" not in value:
            expanded = os.path.expanduser(value)  # noqa: PTH111 - Path would normalise the text
            layer.values[path] = os.path.normpath(folder / expanded)


def _tidy(draft: Draft) -> None:
    """The word none where a value may be None, and what no key can take."""
    from ttf.config.check import may_be_switched_off

    for path in list(draft.origins):
        section = draft.section(*path[:-1])
        value = section.get(path[-1])
        if value == "none" and may_be_switched_off(path):
            section[path[-1]] = None
        elif isinstance(value, float) and not math.isfinite(value):
            draft.problem(path, f"must be a finite number (got {value})")
            section.pop(path[-1])
        elif isinstance(value, str) and not _encodable(value):
            draft.problem(path, f"is not valid Unicode (got {value!r}); rename the file")


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _origins(config: RunConfig, draft: Draft) -> dict[str, str]:
    leaves = _leaves((), config.model_dump())
    return {".".join(path): draft.origin(path) for path, _ in leaves}


def flat(config: RunConfig) -> dict[str, Any]:
    """Every value by its dotted key, in JSON's own types: what remedies and their rules look at."""
    leaves = _leaves((), config.model_dump(mode="json"))
    return {".".join(path): value for path, value in leaves}


def as_json(tree: Mapping[str, Any]) -> str:
    """For pydantic's strict JSON mode: lists become tuples, but `true` is no number."""
    return json.dumps(tree, default=str)
