"""What an index depends on besides data and options: the plugin's code, its libraries' versions.

A package in development keeps its version while its code changes; an index of an earlier state must
not be used for the current one.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
from collections.abc import Iterable, Mapping
from importlib import metadata
from pathlib import Path

from ttf.host.installed import PluginInfo, normal


@functools.cache
def code_of(plugin: PluginInfo) -> str:
    """A hash of the Python files of the package that the entry point names."""
    digest = hashlib.sha256()
    for path in _sources(plugin.entry_point.module.partition(".")[0]):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:24]


def _sources(package: str) -> list[Path]:
    """A package's files, or the one file of a module."""
    spec = importlib.util.find_spec(package)
    if spec is None:
        return []
    found = [
        p for folder in spec.submodule_search_locations or () for p in Path(folder).rglob("*.py")
    ]
    if not found and spec.origin is not None and Path(spec.origin).is_file():
        found = [Path(spec.origin)]
    return sorted(found)


def versions_of(modules: Iterable[str]) -> dict[str, str]:
    """Versions of the distributions that provide these modules; "" if none does."""
    wanted = sorted(modules)
    if not wanted:
        return {}
    owners = _owners()
    return {
        module: " ".join(
            f"{normal(name)} {metadata.version(name)}"
            for name in sorted(set(owners.get(module, ())))
        )
        for module in wanted
    }


@functools.cache
def _owners() -> Mapping[str, list[str]]:
    # Reads the metadata of every distribution, so once per process.
    return metadata.packages_distributions()
