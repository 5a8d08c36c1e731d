"""The text of a new run.toml: what was found, and the keys that people change, with their help."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from ttf.config.reference import Key, find
from ttf.config.toml import render
from ttf.tools.init.look import Training

# Commented out, at their defaults: what the defaults do is the same with the file and without it.
_KEYS: Final = (
    ("tower.query", ("name",)),
    ("tower.doc", ("name",)),
    ("miner", ("name", "negatives")),
    ("loss", ("temperature", "memory_bank")),
    ("train", ("epochs", "batch_size", "lr", "seed")),
    ("evaluate", ("k",)),
    ("memory", ("limit",)),
    ("device", ("name",)),
)
_WIDTH: Final = 98


def text(found: Training, folder: Path) -> str:
    """Paths are relative to the folder of the file."""
    return "\n".join(_lines(found, folder)) + "\n"


def _lines(found: Training, folder: Path) -> Iterator[str]:
    yield "# Written by ttf init. Found: " + found.facts + "."
    yield "# Train:         ttf train run.toml"
    yield "# Look before:   ttf train run.toml --plan"
    yield "# Other keys:    ttf config explain"
    yield "# A line that begins with # shows the default; remove the # to change it."
    yield from ("", "[data]", "# paths are relative to this file")
    for name in ("pairs", "bank", "context"):
        value = getattr(found, name)
        if value is not None:
            yield f"{name} = {render(_relative(Path(value), folder))}"
    for section, names in _KEYS:
        keys = {key.name: key for part in find(section) for key in part.keys}
        yield from ("", f"[{section}]")
        for name in names:
            yield from _about(keys[name])


def _relative(path: Path, folder: Path) -> str:
    return path.resolve().relative_to(folder.resolve()).as_posix()


def _about(key: Key) -> Iterator[str]:
    unit = f" ({key.unit})" if key.unit else ""
    for line in textwrap.wrap(f"{key.description}{unit}", _WIDTH - 4):
        yield f"# {line}"
    yield f"# {key.name} = {key.default}"
