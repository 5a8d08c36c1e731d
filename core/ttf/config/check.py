"""A configuration while its layers are merged, and its checks: keys, types and bounds; plugins and
their options."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError

from ttf.config.answers import answer, within_unknown
from ttf.config.evaluation_schema import EvaluateConfig
from ttf.config.schema import RunConfig, metric_names
from ttf.config.values import refusal, shortened, shown
from ttf.errors import TtfError, UnknownName, suggestion
from ttf.host import options, plugins as host

if TYPE_CHECKING:
    from ttf.config.resolve import Keys, Layer
    from ttf.contracts import Factory, Kind

_Loaded = TypeVar("_Loaded")
_MOST_SUGGESTED = 4
_TOWERS = {"query": "auto", "doc": "identity"}
# Whose are the options of a query tower without a name, and of one over items, which have no vectors.
_OPTIONS_ALONE, _OF_ITEMS = "gru", "embedding"


@dataclass(kw_only=True)
class Draft:
    """The merged layers, before validation."""

    tree: dict[str, Any] = field(
        default_factory=lambda: {"tower": {s: {"name": name} for s, name in _TOWERS.items()}}
    )
    origins: dict[Keys, str] = field(default_factory=dict)
    places: dict[Keys, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    wrong: list[Keys] = field(default_factory=list)  # The keys of the problems that have one.
    notes: list[str] = field(default_factory=list)
    renamed: bool = False  # Something written under an earlier name was moved to its current name.

    def apply(self, layer: Layer) -> None:
        for side in _TOWERS:
            self._change_tower(side, layer)
        for path, value in layer.values.items():
            self._put(path, value, layer.origins[path])
        self.places.update(layer.places)

    def problem(self, path: Sequence[str], text: str) -> None:
        """Adds `run.toml:12: section.key: text`; without the place for defaults."""
        origin = self.origin(tuple(path))
        exact = self.places.get(tuple(path), origin)
        if exact.partition(":")[0] == origin.partition(":")[0]:
            origin = exact
        place = "" if origin == "default" else f"{origin}: "
        key = f"{shortened('.'.join(path))}: " if path else ""
        if path:
            self.wrong.append(tuple(path))
        self.problems.append(f"{place}{key}{text}")

    def rename(self, path: Keys, name: str) -> None:
        # The value at `path` becomes its neighbour `name`.
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
        """The table at `path`; empty if there is none or it is no table."""
        node: Any = self.tree
        for part in path:
            node = node.get(part, {}) if isinstance(node, dict) else {}
        return node if isinstance(node, dict) else {}

    def _put(self, path: Keys, value: Any, origin: str) -> None:
        node = self.tree
        for depth, part in enumerate(path[:-1], start=1):
            below = node.setdefault(part, {})
            if not isinstance(below, dict):
                text = (
                    f"has a value ({shown(below)}), but other settings use it as a table with keys "
                    f"({path[depth]})"
                )
                self.problem(path[:depth], text)
                return
            node = below
        if isinstance(value, dict) and isinstance(node.get(path[-1]), dict):
            return  # an empty table says nothing about one that has keys
        if isinstance(node.get(path[-1]), dict):
            self.origins = {p: o for p, o in self.origins.items() if p[: len(path)] != path}
        node[path[-1]] = value
        self.origins[(*path, "") if value == {} else path] = origin  # {} is no origin of defaults

    def tower_name(self, side: str) -> Any:
        section = self.section("tower", side)
        if (name := section.get("name")) != _TOWERS[side] or len(section) < 2:
            return name
        if self.section("data").get("items") is not None:
            return _OF_ITEMS
        return _OPTIONS_ALONE if side == "query" else name

    def _change_tower(self, side: str, layer: Layer) -> None:
        # A newly chosen tower does not inherit the options of the one it replaces. Options given by
        # --set together with --tower were meant for it, though: both are on one command line.
        name = layer.values.get(("tower", side, "name"))
        options = self.section("tower", side)
        before = self.tower_name(side)
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
                f"tower.{side} is now {name!r} ({layer.origins['tower', side, 'name']}). The "
                f"options of the tower {before!r} are not used: {', '.join(left_out)}."
            )


def tidy(draft: Draft) -> None:
    # The word none where a value may be None, what no key can take, and a tower without a name.
    for side in _TOWERS:
        if (name := draft.tower_name(side)) != draft.section("tower", side).get("name"):
            draft.section("tower", side)["name"] = name
    for path in list(draft.origins):
        section = draft.section(*path[:-1])
        value = section.get(path[-1])
        if refused := refusal(".".join(path)):
            draft.problem((), f"the key {shown('.'.join(path))} {refused}")
        elif value == "none" and _may_be_switched_off(path):
            section[path[-1]] = None
        elif refused := refusal(value):
            draft.problem(path, refused)
            section.pop(path[-1], None)


# --- keys and values ---------------------------------------------------------------------------


def schema(draft: Draft) -> RunConfig | None:
    """The configuration, or None after adding every problem to the draft."""
    from ttf.config.resolve import as_json

    _pairs_are_there(draft)
    _metrics_are_computed(draft)
    try:
        return RunConfig.model_validate_json(as_json(draft.tree), strict=True)
    except ValidationError as error:
        merged: dict[Keys, list[str]] = {}
        for item in error.errors():
            if not item["loc"]:  # no JSON: the draft has said which value cannot be written as text
                continue
            path = _given_path(draft, item["loc"], str(item["type"]))
            merged.setdefault(path, []).append(_explain(path, item))
            if item["type"] == "extra_forbidden":
                merged |= {leaf: [text] for leaf, text in within_unknown(path, item["input"])}
        for path, texts in merged.items():
            draft.problem(path, " or ".join(dict.fromkeys(texts)) + _got(draft, path, texts))
        return None


def _pairs_are_there(draft: Draft) -> None:
    data = draft.section("data")
    for key in ("bank", "context"):
        if data.get(key) and not data.get("pairs"):
            draft.problem(("data", key), f"{key} works only together with pairs: add --pairs FILE")


def _metrics_are_computed(draft: Draft) -> None:
    section = draft.section("evaluate")
    ks = section.get("k", EvaluateConfig().k)
    if not isinstance(ks, list | tuple) or not all(isinstance(k, int) for k in ks):
        return
    known = metric_names(tuple(ks))
    metric = section.get("metric", EvaluateConfig().metric)
    wanted: list[tuple[Keys, Any]] = [(("evaluate", "metric"), metric)]
    gates = draft.tree.get("gates")
    for number, gate in enumerate(gates if isinstance(gates, list) else []):
        need = gate.get("need") if isinstance(gate, dict) else None
        if isinstance(need, str):
            metric, *bound = re.split(r" *[<>]=? *", need)
            wanted.append((("gates", str(number), "need"), metric))
            if bound and not _is_number(bound[0]):
                draft.problem(("gates", str(number), "need"), f"{bound[0]!r} is not a number")
    for path, name in wanted:
        if isinstance(name, str) and name not in known:
            draft.problem(path, f"{name!r} is not a metric of this run.{suggestion(name, known)}")


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _given_path(draft: Draft, loc: Sequence[str | int], kind: str) -> Keys:
    # The part of pydantic's location that the user wrote; the rest names a union's member.
    node: Any = draft.tree
    path: list[str] = []
    for part in loc:
        if isinstance(node, dict) and part in node:
            node = node[str(part)]
        elif isinstance(node, list) and isinstance(part, int) and part < len(node):
            node = node[part]
        elif kind == "missing":
            return (*path, str(part))
        else:
            break
        path.append(str(part))
    return tuple(path)


def _explain(path: Keys, item: Any) -> str:
    if item["type"] == "extra_forbidden":
        what = "section" if len(path) == 1 else "key"
        meant = answer(path, item["input"])
        return f"no such {'key' if meant else what}.{meant or _suggested(path)}"
    if item["type"] in ("model_type", "model_attributes_type", "dict_type"):
        known = ", ".join(_keys(path))
        meant = answer(path, item["input"]).rstrip(".") if len(path) == 1 else ""
        keys = f" ({known})" if known else ""
        return f"must be a table with keys{keys}, not a value{meant and '.'}{meant}"
    if item["type"] == "missing":
        return "is missing"
    message = str(item["msg"]).removeprefix("Value error, ").replace("a valid array", "a list")
    return message[:1].lower() + message[1:]


def _suggested(path: Keys) -> str:
    """A key of the same name in another section, else the closest name in this one."""
    from ttf.config.reference import elsewhere

    found = elsewhere(path[-1])
    if not found or len(found) > _MOST_SUGGESTED:
        return suggestion(path[-1], _keys(path[:-1]))
    return f" Did you mean {' or '.join(map(repr, found))}?"


def _got(draft: Draft, path: Keys, texts: Sequence[str]) -> str:
    node: Any = draft.tree
    for part in path:
        if isinstance(node, list) and part.isdigit() and int(part) < len(node):
            node = node[int(part)]
        else:
            node = node.get(part) if isinstance(node, dict) else None
    worth_showing = isinstance(node, str | int | float | list) and "no such" not in texts[0]
    return f" (got {shown(node)})" if worth_showing else ""


def _model(path: Keys) -> type[BaseModel] | None:
    model: type[BaseModel] = RunConfig
    for part in path:
        info = model.model_fields.get(part)
        inner = [t for t in _types(info.annotation) if _is_model(t)] if info else []
        if part.isdigit():
            continue
        if not inner:
            return None
        model = inner[0]
    return model


def _types(annotation: Any) -> Iterator[Any]:
    yield annotation
    for inner in get_args(annotation):
        yield from _types(inner)


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _keys(path: Keys) -> list[str]:
    model = _model(path)
    return list(model.model_fields) if model else []


def _may_be_switched_off(path: Keys) -> bool:
    # Such a key has a default value and may be None: the word none means None.
    model = _model(path[:-1])
    info = model.model_fields.get(path[-1]) if model else None
    return (
        info is not None
        and info.default is not None
        and not info.is_required()
        and type(None) in _types(info.annotation)
    )


# --- plugins ---------------------------------------------------------------------------------


def plugins(draft: Draft) -> None:
    """Checks names, options and availability of the chosen plugins; loads only those."""
    for side in ("query", "doc"):
        _tower(draft, side)
    _with_tables(draft, "miner")
    _with_tables(draft, "device")
    storage = draft.section("data").get("storage")
    if storage not in (None, "auto"):
        _factory(draft, "storage", storage, ("data", "storage"), must_run=True)
    for name in _strings(draft.section("miner").get("fallback")):
        _factory(draft, "miner", name, ("miner", "fallback"), must_run=True)
    for name in _strings(draft.tree.get("observers")):
        _loading(draft, ("observers",), partial(host.observer, name))


def _strings(value: Any) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def _tower(draft: Draft, side: str) -> None:
    section = draft.section("tower", side)
    name = section.get("name")
    if not isinstance(name, str) or (side == "query" and name == "auto"):
        return
    factory = _factory(draft, "tower", name, ("tower", side, "name"), must_run=True)
    if factory is not None:
        values = {key: value for key, value in section.items() if key != "name"}
        _options(draft, factory, values, ("tower", side))


def _with_tables(draft: Draft, kind: Kind) -> None:
    # A section `[miner]` or `[device]` may have one table of options per plugin.
    section = draft.section(kind)
    name = section.get("name")
    chosen = name if isinstance(name, str) and name != "auto" else None
    factory = _factory(draft, kind, chosen, (kind, "name"), must_run=True) if chosen else None
    if factory is not None and chosen not in section:
        _options(draft, factory, {}, (kind, str(chosen)))
    fields = _keys((kind,))
    for key, value in section.items():
        if key in fields:
            continue
        if not isinstance(value, dict):
            meant = answer((kind, key), value) or _suggested((kind, key))
            draft.problem((kind, key), f"no such key.{meant}")
        elif _is_plugin_table(draft, kind, key, fields):
            table = _factory(draft, kind, key, (kind, key), must_run=False)
            if table is not None:
                _options(draft, table, value, (kind, key))


def _is_plugin_table(draft: Draft, kind: Kind, key: str, fields: Sequence[str]) -> bool:
    """True if a table has a plugin's name; otherwise adds a problem that says why not."""
    try:
        host.find(kind, key)
    except UnknownName:
        known = [*host.choices(kind), *fields]
        draft.problem((kind, key), f"no {kind} named {key!r}.{suggestion(key, known)}")
    except TtfError as error:
        draft.problem((kind, key), f"{error} {error.hint}")
    else:
        return True
    return False


def _factory(draft: Draft, kind: Kind, name: str, path: Keys, *, must_run: bool) -> Factory | None:
    return _loading(
        draft, path, lambda: host.usable(kind, name) if must_run else host.load(kind, name)
    )


def _loading(draft: Draft, path: Keys, load: Callable[[], _Loaded]) -> _Loaded | None:
    """The result of `load`, or None after adding a problem."""
    try:
        return load()
    except TtfError as error:
        text = f"{str(error).rstrip('.')}. {error.hint}".strip()
        draft.problem(path, text[:1].lower() + text[1:] if text[1:2].islower() else text)
        return None


def _options(draft: Draft, factory: Factory, values: dict[str, Any], path: Keys) -> None:
    where = ".".join(path)
    draft.notes += options.deprecations(factory.options_type, values, where)
    for old, new in options.renamed(factory.options_type, values).items():
        draft.rename((*path, old), new)
        values = {new if key == old else key: value for key, value in values.items()}
    beside = ("name",) if path[0] == "tower" else ()  # of [miner], the name is a table higher
    _, problems = options.validate(factory.options_type, values, where, beside)
    for problem in problems:
        dotted, _, text = problem.partition(": ")
        key = dotted.removeprefix(f"{where}.").split(".")
        draft.problem((*path, *key), text)
