"""The configuration of a trial and of the last run, as TOML."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from ttf.config import toml
from ttf.tools.tune.setup import DOC_TOWER, TOWER, TuneSetup
from ttf.tools.tune.trial import LOOKS

_TOWERS: Final = (TOWER, DOC_TOWER)


def values_of(setup: TuneSetup, point: Mapping[str, Any]) -> dict[str, Any]:
    """Of all keys that the study sets, by dotted key. An empty point is the user's configuration."""
    values = {**setup.start}
    for key in _TOWERS:
        if point.get(key, values.get(key)) != values.get(key):  # its options are of another tower
            table = key.removesuffix("name")
            values = {k: v for k, v in values.items() if not k.startswith(table)}
    return {**values, **point}


def sections(setup: TuneSetup, values: Mapping[str, Any]) -> dict[str, Any]:
    tree = _copy(setup.base)
    for key, value in values.items():
        *path, name = key.split(".")
        table = tree
        for part in path:
            table = table.setdefault(part, {})
        table[name] = value
    return tree


def _copy(tree: Mapping[str, Any]) -> dict[str, Any]:
    return {k: _copy(v) if isinstance(v, Mapping) else v for k, v in tree.items()}


def trial_toml(setup: TuneSetup, number: int, point: Mapping[str, Any]) -> str:
    """As the last run, but shorter, on fewer pairs, and evaluated on the hold-out."""
    # Where the values of the start are, "auto" stays: it is settled as in a run of the user's.
    values = values_of(setup, point if number > 1 else {})
    steps = setup.steps_of(point if number > 1 else {})
    values |= {
        "data.hold_out": setup.hold_out,
        "train.steps": steps,
        "evaluate.every": look_steps(steps)[0],
        "evaluate.patience": 0,
        "evaluate.above_chance": False,  # What is no better than chance loses, and is no error.
        "gates": [],
        "observers": [],
        "supervise.remedies": False,
    }
    tree = sections(setup, values)
    head = [f"Trial {number} of a study of ttf tune: short, and evaluated on held out pairs."]
    return toml.written(tree, setup.origins, head)


def best_toml(setup: TuneSetup, number: int, point: Mapping[str, Any], head: list[str]) -> str:
    """The configuration of the last run: what the user gave, with what the study found. Every other
    value is the default."""
    values = values_of(setup, point if number > 1 else {})
    found = f"trial {number} of ttf tune"
    origins = {**setup.origins, **(dict.fromkeys(point, found) if number > 1 else {})}
    tree = _given((), sections(setup, values), origins)
    return toml.written(tree, origins, head)


def _given(
    path: tuple[str, ...], tree: Mapping[str, Any], origins: Mapping[str, str]
) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for name, value in tree.items():
        if isinstance(value, Mapping):
            inner = _given((*path, name), value, origins)
            if inner:
                out[name] = inner
        elif ".".join((*path, name)) in origins:
            out[name] = value
    return out


def look_steps(steps: int) -> list[int]:
    """Steps after which a trial is evaluated, the end included.

    >>> look_steps(712), look_steps(3)
    ([178, 356, 534, 712], [1, 2, 3])
    """
    every = max(1, math.ceil(steps / LOOKS))
    return [*range(every, steps, every), steps]
