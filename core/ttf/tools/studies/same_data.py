"""The data that all runs of a study read, as fingerprints of their content."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from ttf.tools.tickets.facts import fingerprint

KEYS: Final = ("data.pairs", "data.bank", "data.context", "train.init")


def fingerprints(paths: Iterable[str]) -> dict[str, str]:
    return {path: fingerprint(path) for path in paths}


def data_of(flat: Mapping[str, Any], cwd: Path) -> list[str]:
    """The paths and addresses of data in a configuration by dotted keys."""
    named = (str(flat[key]) for key in KEYS if flat.get(key))
    return [uri if "://" in uri else str(cwd / uri) for uri in named]
