"""Resolves the configurations of all arms as a run would; in a child process, because it loads
pydantic and the user's plugins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ttf.config.resolve import flat, load_run_toml, resolve
from ttf.errors import ConfigError, TtfError

if TYPE_CHECKING:
    from ttf.process.serve import Tell


def resolve_arms(request: Mapping[str, Any], tell: Tell) -> dict[str, Any]:
    return {"arms": [_resolved(Path(arm["toml"]), arm["sets"]) for arm in request["arms"]]}


def _resolved(toml: Path, sets: Sequence[str]) -> dict[str, Any]:
    """`problems`, or the values as `flat`, `steps`, and whether the configuration sets evaluations."""
    try:
        resolved = resolve(toml, sets)
    except ConfigError as error:
        return {"problems": list(error.problems) or [str(error)]}
    origin = resolved.origins["evaluate.every"]
    return {
        "problems": [],
        "flat": flat(resolved.config),
        "steps": resolved.config.train.steps,
        "says_when": origin != "default" and not (origin != "--set" and _is_default(toml)),
    }


def _is_default(toml: Path) -> bool:
    # A run's run.toml holds every value with its origin.
    if not (toml.parent / "manifest.json").is_file():
        return False
    try:
        return load_run_toml(toml).origins["evaluate.every"] == "default"
    except TtfError:
        return False
