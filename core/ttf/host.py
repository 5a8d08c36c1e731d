"""The plugin host: names from metadata, one plugin loaded at a time, failures explained.

Listing reads entry-point metadata and imports nothing. Loading imports the one module asked for,
registers it with pluggy and asks its hook for the factory; a module that raises harms nobody else.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import EntryPoint, distributions
from typing import TYPE_CHECKING, Any, cast

import pluggy

from ttf import hookspecs
from ttf.contracts import KINDS, Kind
from ttf.errors import ConfigError, PluginBroken, PluginUnavailable, UnknownName

if TYPE_CHECKING:
    from ttf.contracts import (
        DeviceFactory,
        Factory,
        MinerFactory,
        StorageFactory,
        TowerFactory,
    )

API = 1
GROUP = f"ttf.v{API}"
OURS = "twotower"


@dataclass(frozen=True, kw_only=True)
class PluginInfo:
    """One installed plugin, from metadata alone."""

    kind: Kind
    name: str
    distribution: str
    version: str
    entry_point: EntryPoint

    @property
    def reference(self) -> str:
        return f"{self.kind}.{self.name}"


def disabled_distributions() -> frozenset[str]:
    names = os.environ.get("TTF_DISABLE_PLUGINS", "").split(",")
    return frozenset(n.strip().lower() for n in names if n.strip())


@functools.cache
def installed(disabled: frozenset[str] | None = None) -> tuple[PluginInfo, ...]:
    """Every plugin of every distribution, sorted; imports none of them."""
    blocked = disabled_distributions() if disabled is None else disabled
    found = [
        PluginInfo(
            kind=kind,
            name=name,
            distribution=dist.name,
            version=dist.version,
            entry_point=entry,
        )
        for dist in distributions()
        for entry in dist.entry_points
        if entry.group == GROUP and dist.name.lower() not in blocked
        for kind, _, name in [entry.name.partition(".")]
        if kind in KINDS and name
    ]
    unique = {(p.kind, p.name, p.distribution): p for p in found}
    return tuple(sorted(unique.values(), key=lambda p: (p.kind, p.name, p.distribution)))


def names(kind: Kind) -> list[str]:
    """The installed names of a kind, for option choices and error messages."""
    return sorted({p.name for p in installed() if p.kind == kind})


def claimed_twice(kind: Kind) -> dict[str, list[str]]:
    """Names that several distributions claim, with those distributions."""
    claims: dict[str, list[str]] = {}
    for plugin in installed():
        if plugin.kind == kind:
            claims.setdefault(plugin.name, []).append(plugin.distribution)
    return {name: owners for name, owners in claims.items() if len(owners) > 1}


def choices(kind: Kind) -> list[str]:
    """What can be typed for a kind: `distribution:name` where two distributions claim a name."""
    twice = claimed_twice(kind)
    return sorted(
        f"{p.distribution}:{p.name}" if p.name in twice else p.name
        for p in installed()
        if p.kind == kind
    )


def find(kind: Kind, name: str) -> PluginInfo:
    """By `name` or `distribution:name`; raises UnknownName with the closest match, and
    ConfigError where the name alone does not say whose plugin is meant."""
    owner, _, bare = name.rpartition(":")
    claimed = [p for p in installed() if p.kind == kind and p.name == bare]
    matches = [p for p in claimed if owner.lower() in ("", p.distribution.lower())]
    if not matches:
        raise UnknownName(kind, name, choices(kind))
    if len(matches) > 1:
        named = [f"{p.distribution}:{p.name}" for p in matches]
        raise ConfigError(
            f"The {kind} {bare!r} is claimed by {len(named)} distributions: "
            f"{', '.join(p.distribution for p in matches)}.",
            hint=f"Say whose you mean, {' or '.join(named)}, or switch one off with "
            f"TTF_DISABLE_PLUGINS={matches[-1].distribution}.",
        )
    return matches[0]


@functools.cache
def load(kind: Kind, name: str) -> Factory:
    """Imports the plugin and returns its factory; no check whether it can run here."""
    info = find(kind, name)
    manager = pluggy.PluginManager("ttf")
    manager.add_hookspecs(hookspecs)
    try:
        manager.register(info.entry_point.load(), name=info.reference)
        factory = getattr(manager.hook, f"ttf_{kind}")(name=info.name)
    except (Exception, SystemExit) as error:
        raise _broken(info, error) from error
    if factory is None:
        raise PluginBroken(
            f"The distribution {info.distribution} declares {info.reference}, but its hook "
            f"ttf_{kind} returned nothing for {info.name!r}.",
            hint=f"Report it to the authors of {info.distribution}.",
        )
    return cast("Factory", factory)


def _broken(info: PluginInfo, error: BaseException) -> PluginBroken:
    mend = f"Reinstall it: pip install --force-reinstall --no-deps {info.distribution}"
    off = f", or switch it off: TTF_DISABLE_PLUGINS={info.distribution}"
    return PluginBroken(
        f"The plugin {info.reference} of the distribution {info.distribution} "
        f"{info.version} failed to load: {type(error).__name__}: {error}",
        hint=f"{mend}{'' if info.distribution == OURS else off}.",
    )


def usable(kind: Kind, name: str) -> Factory:
    """The factory, or PluginUnavailable with the reason and the fix."""
    factory = load(kind, name)
    state = factory.availability()
    if not state.ok:
        info = find(kind, name)
        raise PluginUnavailable(
            f"The {kind} {name!r} (from {info.distribution}) cannot be used here: {state.reason}",
            hint=state.fix,
        )
    return factory


def tower(name: str) -> TowerFactory:
    return cast("TowerFactory", usable("tower", name))


def miner(name: str) -> MinerFactory:
    return cast("MinerFactory", usable("miner", name))


def storage(name: str) -> StorageFactory:
    return cast("StorageFactory", usable("storage", name))


def device(name: str) -> DeviceFactory:
    return cast("DeviceFactory", usable("device", name))


def observers(wanted: Iterable[str]) -> Any:
    """A pluggy hook relay of the named observers, loaded one by one."""
    manager = pluggy.PluginManager("ttf")
    manager.add_hookspecs(hookspecs)
    for name in wanted:
        info = find("observer", name)
        try:
            manager.register(info.entry_point.load(), name=info.reference)
        except (Exception, SystemExit) as error:
            raise _broken(info, error) from error
    return manager.hook
