"""Merges defaults, a file, --set and flags to one validated configuration with origins.

Layers, later ones win: default < file < --set < flag < --safe < remedies. All problems are
collected and raised as one ConfigError, each with the place of the wrong value.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ttf.config import files, toml
from ttf.config.values import DEEPEST, MOST_PROBLEMS, plain, shortened, too_deep
from ttf.errors import ConfigError, suggestion
from ttf.rundir.confined import MOST_CONFIG_BYTES, read_inside
from ttf.text.shell import quoted

if TYPE_CHECKING:
    from ttf.config.check import Draft
    from ttf.config.schema import RunConfig
    from ttf.contracts import Kind
    from ttf.rundir.request import Change

Keys = tuple[str, ...]

# Every flag of `ttf train` that sets a key; Python's overrides use the same names (`lr=`).
FLAGS: Mapping[str, str] = {
    "--pairs": "data.pairs",
    "--bank": "data.bank",
    "--items": "data.items",
    "--context": "data.context",
    "--val-split": "data.val_split",
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
    "--core": "supervise.core",
}

# Keys outside any section. They have no flag: only --set, files and `sets` of Python set them.
SECTIONLESS: Final = ("observers", "gates")
# Flags that set a key to false; a flag that is not given (false itself) sets nothing.
NEGATIONS: Mapping[str, str] = {"--no-remedies": "supervise.remedies"}

PATHS = frozenset({"data.pairs", "data.bank", "data.context", "train.init"})


@dataclass(frozen=True, kw_only=True)
class Resolved:
    """A valid configuration and the origin of every value, by dotted key."""

    config: RunConfig
    origins: Mapping[str, str]
    notes: tuple[str, ...] = ()  # Changes that a higher layer made to a lower one, for the user.
    # Of a resumed run: remedies may cut its steps, not change them. None: a new run.
    samples_per_step: int | None = None


@dataclass(frozen=True, kw_only=True)
class Layer:
    """The values of one source, as leaves."""

    values: dict[Keys, Any] = field(default_factory=dict)
    origins: dict[Keys, str] = field(default_factory=dict)
    # Where tables begin, and the content of [[tables]]: finer than the leaves' origins.
    places: dict[Keys, str] = field(default_factory=dict)

    def add(self, path: Keys, value: Any, origin: str) -> None:
        if len(path) > DEEPEST:
            raise too_deep()
        for leaf, item in leaves(path, plain(value)):
            self.values[leaf] = item
            self.origins[leaf] = origin


def resolve(
    file: Path | Mapping[str, Any] | Layer | None = None,
    sets: Sequence[str] = (),
    flags: Mapping[str, Any] | None = None,
    *,
    safe: bool = False,
    overlay: Mapping[str, Change] | None = None,
    plugins: bool = True,
    before_plugins: Callable[[RunConfig], None] = lambda _: None,
) -> Resolved:
    """Raises ConfigError with all problems at once. `flags` are named as on the command line
    (`--lr`, `lr`) or by key (`train.lr`); `overlay` holds remedies by key, each with its own
    origin. Without `plugins`, names and options of plugins are not checked. `before_plugins` gets the
    configuration, if it is valid so far, before the first plugin is imported."""
    from ttf.config import check
    from ttf.config.safe_mode import make_safe

    draft = check.Draft()
    draft.apply(_file_layer(file))
    draft.apply(_set_layer(sets, draft.problems))
    draft.apply(_flag_layer(flags or {}, draft.problems))
    if safe:
        make_safe(draft)
    draft.apply(_overlay_layer(overlay or {}))
    check.tidy(draft)
    config = check.schema(draft)
    if plugins:
        if config is not None:
            before_plugins(config)
        check.plugins(draft)
        if config is not None and draft.renamed:
            config = check.schema(draft)
    if config is None or draft.problems:
        raise _error(draft, file)
    return Resolved(config=config, origins=_origins(config, draft), notes=tuple(draft.notes))


def _error(draft: Draft, file: object) -> ConfigError:
    from ttf.config.reference import nearest, sections
    from ttf.config.synonyms import meaning

    problems = draft.problems
    count, more = len(problems), len(problems) - MOST_PROBLEMS
    listed = [*problems[:MOST_PROBLEMS], *([f"... and {more:,} more"] if more > 0 else [])]
    hint = f"To see what a key takes: ttf config explain {nearest(draft.wrong)}".rstrip()
    known = {key.path for section in sections() for key in section.keys}
    foreign = [path for path in draft.wrong if ".".join(path) not in known]
    if isinstance(file, Path) and any(map(meaning, foreign)):
        hint = f"To write this file with the keys of ttf: ttf config convert {quoted(file)}"
    return ConfigError(
        f"The configuration has {count:,} problem{'s' * (count > 1)}:", problems=listed, hint=hint
    )


def _file_layer(file: Path | Mapping[str, Any] | Layer | None) -> Layer:
    if isinstance(file, Layer):
        return file
    layer = Layer()
    if isinstance(file, Mapping):
        for key, value in file.items():
            layer.add((key,), value, "argument")
        _anchor(layer, Path.cwd())
    elif file is not None:
        document = files.read(Path(file))
        for path, value in leaves((), document.values):
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
            problems.append(
                f"--set {shortened(text)}: write it as key.path=value, for example --set train.lr=0.001"
            )
        else:
            layer.add(path, parse_value(value), "--set")
    _anchor(layer, Path.cwd())
    return layer


def _flag_layer(flags: Mapping[str, Any], problems: list[str]) -> Layer:
    layer = Layer()
    for name, value in flags.items():
        flag = f"--{name.lstrip('-').replace('_', '-')}"
        key = name if "." in name or name in SECTIONLESS else FLAGS.get(flag) or NEGATIONS.get(flag)
        origin = name if name.startswith("-") else f"{name}="
        if key is None:
            problems.append(f"{name}: no such option.{_option_meant(name, value)}")
        elif flag not in NEGATIONS:
            layer.add(tuple(key.split(".")), value, origin)
        elif value:
            layer.add(tuple(key.split(".")), False, origin)
    _anchor(layer, Path.cwd())
    return layer


def _option_meant(name: str, value: Any) -> str:
    from ttf.config.answers import answer

    known = [flag.lstrip("-").replace("-", "_") for flag in (*FLAGS, *NEGATIONS)]
    meant = answer((name,), value)
    if not name.startswith("-"):  # an argument of Python
        meant = re.sub(r"\(--([\w-]+)\)", lambda m: f"({m[1].replace('-', '_')}=)", meant)
    return meant or suggestion(name, known)


def _overlay_layer(overlay: Mapping[str, Change]) -> Layer:
    layer = Layer()
    for key, change in overlay.items():
        layer.add(tuple(key.split(".")), change.value, change.origin)
    return layer


def parse_value(text: str) -> Any:
    """A value as TOML reads it; if it is not TOML (a bare word, a path), a string.

    >>> parse_value("0.1"), parse_value("[1, 10]"), parse_value("hnswlib")
    (0.1, [1, 10], 'hnswlib')
    """
    try:
        parsed = toml.parse(f"value = {text}")
    except ValueError:
        return text.strip()
    return parsed["value"] if len(parsed) == 1 else text.strip()


def leaves(path: Keys, value: Any) -> Iterator[tuple[Keys, Any]]:
    # An empty table is a leaf, so that its name is checked.
    if isinstance(value, Mapping) and (value or not path):
        for key, item in value.items():
            yield from leaves((*path, str(key)), item)
    else:
        yield path, value


def _anchor(layer: Layer, folder: Path) -> None:
    """Makes paths absolute: in a file they are relative to its folder, elsewhere to the current
    one."""
    for path, value in layer.values.items():
        if ".".join(path) in PATHS and isinstance(value, str) and value and "://" not in value:
            expanded = os.path.expanduser(value)  # noqa: PTH111 - Path would normalise the text
            layer.values[path] = os.path.normpath(folder / expanded)


def _origins(config: RunConfig, draft: Draft) -> dict[str, str]:
    return {".".join(path): draft.origin(path) for path, _ in leaves((), config.model_dump())}


def flat(config: RunConfig) -> dict[str, Any]:
    """Every value by its dotted key, in JSON types: for remedies and their rules."""
    values = leaves((), config.model_dump(mode="json"))
    return {".".join(path): value for path, value in values}


def as_json(tree: Mapping[str, Any]) -> str:
    # For pydantic's strict JSON mode: lists become tuples, but `true` is no number.
    return json.dumps(tree, default=str)


# --- run.toml, read back ----------------------------------------------------------------------


def load_run_toml(
    path: Path, *, overlay: Mapping[str, Change] | None = None, plugins: bool = False
) -> Resolved:
    """A run's configuration with its written origins, and remedies over it.

    Plugins are checked only if asked: reading a run must not need the libraries it used.
    """
    # Read first: it refuses a link, a pipe or a device where a run has its file.
    text = read_inside(path, path.parent, MOST_CONFIG_BYTES).decode(errors="replace").splitlines()
    written = resolve(path, plugins=plugins and not overlay)
    resolved = resolve(path, overlay=overlay, plugins=plugins) if overlay else written
    lines = {keys: text[number - 1] for keys, number in files.read(path).lines.items()}
    comments = {
        keys: line.rpartition(toml.COMMENT)[2]
        for keys, line in lines.items()
        if toml.COMMENT in line
    }
    # Without a comment, a person wrote the value: it is no default. Tables have none.
    by_hand = {keys for keys, line in lines.items() if not line.lstrip().startswith("[")}
    by_hand -= comments.keys()
    gates = next((c for keys, c in comments.items() if keys[:1] == ("gates",)), "default")
    origins = {}
    for dotted, origin in resolved.origins.items():
        keys = tuple(dotted.split("."))
        noted = gates if dotted == "gates" else comments.get(keys, "default")
        origins[dotted] = origin if keys in by_hand else noted
    remedied = {k: o for k, o in resolved.origins.items() if o != written.origins.get(k)}
    return replace(
        resolved, origins=origins | remedied, samples_per_step=_samples_per_step(written)
    )


def _samples_per_step(written: Resolved) -> int | None:
    # None if the run ended before its batch size was settled.
    train = written.config.train
    return None if train.batch_size == "auto" else train.batch_size * train.accumulate


def with_value(resolved: Resolved, key: str, value: Any, origin: str) -> Resolved:
    """The same with another value at a dotted key."""
    config = _updated(resolved.config, key.split("."), value)
    return replace(resolved, config=config, origins={**resolved.origins, key: origin})


def _updated(model: Any, path: Sequence[str], value: Any) -> Any:
    name, *below = path
    new = _updated(getattr(model, name), below, value) if below else value
    return model.model_copy(update={name: new})


# --- options of plugins ----------------------------------------------------------------------------


def with_options(resolved: Resolved) -> Resolved:
    """The configuration with every option of the chosen plugins written out: a later default
    must not change a run. The plugin of a name that is still "auto" has none yet."""
    config = resolved.config
    origins = dict(resolved.origins)
    towers = {}
    for side in ("query", "doc"):
        tower = getattr(config.tower, side)
        if tower.name == "auto":
            continue
        options = _options("tower", tower.name, tower.options(), f"tower.{side}")
        towers[side] = tower.model_copy(update=options)
        _fill(origins, f"tower.{side}", options)
    updates: dict[str, Any] = {"tower": config.tower.model_copy(update=towers)}
    chosen: dict[Kind, str] = {"device": config.device.name}
    if config.miner.negatives:
        chosen["miner"] = config.miner.name
    for kind, name in chosen.items():
        part = getattr(config, kind)
        where = f"{kind}.{name}"
        options = {} if name == "auto" else _options(kind, name, part.options_of(name), where)
        if options:
            updates[kind] = part.model_copy(update={name: options})
            _fill(origins, where, options)
    return replace(resolved, config=config.model_copy(update=updates), origins=origins)


def _options(kind: Kind, name: str, given: Mapping[str, Any], where: str) -> dict[str, Any]:
    from ttf.host import plugins
    from ttf.host.options import checked

    return asdict(checked(plugins.load(kind, name).options_type, given, where))


def _fill(origins: dict[str, str], prefix: str, options: Mapping[str, Any]) -> None:
    for name in options:
        origins.setdefault(f"{prefix}.{name}", "default")
