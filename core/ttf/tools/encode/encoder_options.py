"""An encoder's options, of the command line or of Python."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from ttf.config.resolve import parse_value
from ttf.errors import ConfigError
from ttf.host import plugins
from ttf.host.options import checked
from ttf.machine.processor import usable_threads
from ttf.tools.encode.encoder_process import Chosen


def chosen(name: str, model: str | None, sets: Sequence[str], threads: int | None) -> Chosen:
    """`sets`: texts like "dim=128"."""
    given: dict[str, Any] = {}
    for text in sets:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise ConfigError(f"--set {text}: write it as option=value, for example dim=128")
        given[key.strip()] = parse_value(value)
    return chosen_with(name, model, given, threads)


def chosen_with(
    name: str, model: str | None, given: Mapping[str, Any], threads: int | None
) -> Chosen:
    """Raises UnknownName, PluginUnavailable, or ConfigError with every problem of the options."""
    factory = plugins.usable("encoder", name)
    fields = {field.name for field in dataclasses.fields(factory.options_type)}
    options = dict(given)
    if model is not None:
        if "model" not in fields:
            raise ConfigError(
                f"The encoder {name!r} has no model, so --model {model} means nothing.",
                hint="Leave it out, or choose another encoder: ttf plugins list --kind encoder",
            )
        options["model"] = model
    made = checked(factory.options_type, options, f"encoder.{name}")
    return Chosen(name=name, options=dataclasses.asdict(made), threads=threads or usable_threads())
