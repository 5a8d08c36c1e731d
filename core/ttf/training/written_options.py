"""The options of the chosen plugins, defaults included, as part of a run's configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, cast

from ttf.host import plugins
from ttf.host.options import checked

if TYPE_CHECKING:
    from ttf.config.resolve import Resolved
    from ttf.contracts import Kind
    from ttf.training.auto_settings import Specs


def with_options(resolved: Resolved, specs: Specs) -> Resolved:
    """Every option of the chosen plugins is written out: a later default must not change this
    run."""
    config = resolved.config
    origins = dict(resolved.origins)
    towers = {}
    for side, spec in (("query", specs.query), ("doc", specs.doc)):
        options = asdict(spec.options)
        towers[side] = getattr(config.tower, side).model_copy(update=options)
        _fill(origins, f"tower.{side}", options)
    updates: dict[str, Any] = {"tower": config.tower.model_copy(update=towers)}
    chosen = {"device": config.device.name}
    if config.miner.negatives:
        chosen["miner"] = config.miner.name
    for section, name in chosen.items():
        part = getattr(config, section)
        factory = plugins.load(cast("Kind", section), name)
        options = asdict(checked(factory.options_type, part.options_of(name), f"{section}.{name}"))
        if options:
            updates[section] = part.model_copy(update={name: options})
            _fill(origins, f"{section}.{name}", options)
    return replace(resolved, config=config.model_copy(update=updates), origins=origins)


def _fill(origins: dict[str, str], prefix: str, options: Mapping[str, Any]) -> None:
    for name in options:
        origins.setdefault(f"{prefix}.{name}", "default")
