"""The options of the chosen plugins, defaults included, as part of a configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from ttf.host import plugins
from ttf.host.options import checked

if TYPE_CHECKING:
    from ttf.config.resolve import Resolved
    from ttf.contracts import Kind


def with_options(resolved: Resolved) -> Resolved:
    """Every option of the chosen plugins is written out: a later default must not change a run.
    The plugin of a name that is still "auto" has none yet."""
    config = resolved.config
    origins = dict(resolved.origins)
    towers = {}
    for side in ("query", "doc"):
        tower = getattr(config.tower, side)
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
    return asdict(checked(plugins.load(kind, name).options_type, given, where))


def _fill(origins: dict[str, str], prefix: str, options: Mapping[str, Any]) -> None:
    for name in options:
        origins.setdefault(f"{prefix}.{name}", "default")
