"""The plugin host: names from metadata, one plugin loaded at a time, failures explained.

Listing reads entry-point metadata and imports nothing. Loading imports the one module asked for,
registers it with pluggy and asks its hook for the factory; a module that raises harms nobody else.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Iterable, Mapping
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
    from ttf.doctor.check import Check

API = 1
GROUP = f"ttf.v{API}"
OURS = "twotower"
_HOOKS: Mapping[Kind, str] = {"check": "ttf_doctor_check"}
"""Hooks that are not named after their kind."""


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
    hook = _HOOKS.get(kind, f"ttf_{kind}")
    manager = pluggy.PluginManager("ttf")
    manager.add_hookspecs(hookspecs)
    try:
        manager.register(info.entry_point.load(), name=info.reference)
        factory = getattr(manager.hook, hook)(name=info.name)
    except (Exception, SystemExit) as error:
        raise _broken(info, error) from error
    if factory is None:
        raise PluginBroken(
            f"The distribution {info.distribution} declares {info.reference}, but its hook "
            f"{hook} returned nothing for {info.name!r}.",
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


def check(name: str) -> Check:
    """A check of `ttf doctor` that a plugin brings; call it where it can do no harm."""
    return cast("Check", load("check", name))


def require(kind: Kind, name: str, recorded: str = "") -> None:
    """For a run that is opened again: raises PluginUnavailable where a plugin it used is gone.

    `recorded` is what the run's manifest says of it: distribution and version.
    """
    owner, _, bare = name.rpartition(":")
    here = [p for p in installed(frozenset()) if p.kind == kind and p.name == bare]
    distribution, _, version = recorded.partition(" ")
    distribution = owner or distribution
    mine = [p for p in here if distribution.lower() in ("", p.distribution.lower())]
    blocked = [p for p in mine if p.distribution.lower() in disabled_distributions()]
    if blocked and len(blocked) == len(mine):
        raise PluginUnavailable(
            f"The run uses the {kind} {bare!r} of the distribution {blocked[0].distribution}, "
            "which TTF_DISABLE_PLUGINS switches off.",
            hint=f"Take {blocked[0].distribution} out of TTF_DISABLE_PLUGINS.",
        )
    if not here:
        said = f" (of the distribution {recorded or owner})" if distribution else ""
        wanted = f"{distribution}=={version}" if version else distribution or "DISTRIBUTION"
        raise PluginUnavailable(
            f"The run uses the {kind} {bare!r}{said}, which is not installed.",
            hint=f'Install what brings it: pip install "{wanted}"',
        )
    if kind == "observer":
        find(kind, name)
    else:
        usable(kind, name)


def observers(wanted: Iterable[str], say: Callable[[str], None] | None = None) -> Observers:
    """The named observers, loaded one by one; `say` hears of those that fail later."""
    loaded = []
    for name in wanted:
        info = find("observer", name)
        manager = pluggy.PluginManager("ttf")
        manager.add_hookspecs(hookspecs)
        try:
            manager.register(info.entry_point.load(), name=info.reference)
        except (Exception, SystemExit) as error:
            raise _broken(info, error) from error
        loaded.append((info, manager.hook))
    return Observers(loaded, say or _to_standard_error)


class Observers:
    """Calls the hooks of a run's observers, as `observers.ttf_step(record=...)`.

    Watching must not end what is watched: an observer that raises is left out from then on.
    """

    def __init__(
        self, loaded: Iterable[tuple[PluginInfo, Any]], say: Callable[[str], None]
    ) -> None:
        self._loaded, self._say = list(loaded), say

    def __getattr__(self, hook: str) -> Callable[..., None]:
        if not hasattr(hookspecs, hook):
            raise AttributeError(f"there is no hook {hook!r}")
        return functools.partial(self._call, hook)

    def _call(self, hook: str, **arguments: Any) -> None:
        for entry in list(self._loaded):
            info, hooks = entry
            try:
                getattr(hooks, hook)(**arguments)
            except (Exception, SystemExit) as error:  # noqa: BLE001 - a stranger's code
                self._loaded.remove(entry)
                self._say(
                    f"The {info.reference} of the distribution {info.distribution} failed in "
                    f"{hook} ({type(error).__name__}: {error}): it is left out for the rest of "
                    "the run."
                )


def _to_standard_error(text: str) -> None:
    print(f"note: {text}", file=sys.stderr)
