"""The plugin host: loads the one plugin that is asked for, and explains failures.

Names come from metadata (`ttf.host.installed`). Loading imports the one module asked for, registers it
with pluggy and asks its hook for the factory; a module that raises harms nobody else.
"""

from __future__ import annotations

import functools
import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, cast

import pluggy

from ttf import hookspecs
from ttf.contracts import Availability, Kind
from ttf.errors import PluginBroken, PluginUnavailable, suggestion
from ttf.host import hook_trace, notices
from ttf.host.deprecation import PluginDeprecationWarning
from ttf.host.installed import (
    API,
    OURS,
    PluginInfo,
    choice_of,
    choices,
    claimed_twice,
    disabled_distributions,
    find,
    installed,
    normal,
    of_kind,
    ours,
)
from ttf.host.observers import Observers
from ttf.host.plugin_faults import Blamed, broken

if TYPE_CHECKING:
    from ttf.contracts import (
        DeviceFactory,
        Factory,
        MinerFactory,
        StorageFactory,
        TowerFactory,
    )
    from ttf.hookspecs import Check

__all__ = [
    "API",
    "OURS",
    "Observers",
    "PluginInfo",
    "check",
    "choice_of",
    "choices",
    "claimed_twice",
    "device",
    "disabled_distributions",
    "find",
    "installed",
    "load",
    "miner",
    "normal",
    "observer",
    "observers",
    "of_kind",
    "ours",
    "require",
    "storage",
    "tower",
    "usable",
]

_HOOKS: Final[Mapping[Kind, str]] = {"check": "ttf_doctor_check"}
"""Hooks that are not named after their kind."""


@functools.cache
def load(kind: Kind, name: str) -> Factory:
    """Imports the plugin and returns its factory; no check whether it can run here."""
    info = find(kind, name)
    hook = _HOOKS.get(kind, f"ttf_{kind}")
    try:
        factory = getattr(_registered(info), hook)(name=info.name)
    except (Exception, SystemExit) as error:
        raise broken(info, "failed to load", error) from error
    if factory is None:
        raise PluginBroken(
            f"The distribution {info.distribution} declares {info.reference}, but its hook "
            f"{hook} returned nothing for {info.name!r}.",
            hint=f"Report it to the authors of {info.distribution}.",
        )
    return cast("Factory", factory if info.ours else Blamed(factory, info))


def _registered(info: PluginInfo) -> Any:
    """The hooks of one plugin, which no other plugin hears."""
    manager = pluggy.PluginManager("ttf")
    manager.add_hookspecs(hookspecs)
    began = time.perf_counter()
    plugin = info.entry_point.load()
    hook_trace.imported(info, time.perf_counter() - began)
    hook_trace.watch(manager, info)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", PluginDeprecationWarning)
        manager.register(plugin, name=info.reference)
    for warning in caught:
        if issubclass(warning.category, PluginDeprecationWarning):
            notices.say(f"{info.reference} of {info.distribution}: {warning.message}")
        warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    _tell_of_hooks_nobody_calls(manager, plugin, info)
    return manager.hook


def _tell_of_hooks_nobody_calls(
    manager: pluggy.PluginManager, plugin: object, info: PluginInfo
) -> None:
    """A misspelt hook would otherwise be silent for ever."""
    known = [name for name in vars(hookspecs) if name.startswith("ttf_")]
    for caller in manager.get_hookcallers(plugin) or ():
        if not caller.has_spec():
            notices.say(
                f"{info.reference} of {info.distribution} implements {caller.name}, which this "
                f"ttf never calls.{suggestion(caller.name, known)}"
            )


def usable(kind: Kind, name: str) -> Factory:
    """The factory, or PluginUnavailable with the reason and the fix."""
    factory = load(kind, name)
    _require_available(find(kind, name), factory.availability())
    return factory


def _require_available(info: PluginInfo, state: Availability) -> None:
    if not state.ok:
        raise PluginUnavailable(
            f"The {info.kind} {info.name!r} (from {info.distribution}) cannot be used here: "
            f"{state.reason}",
            hint=state.fix,
        )


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
    mine = [p for p in here if p.owned_by(distribution)]
    blocked = [p for p in mine if normal(p.distribution) in disabled_distributions()]
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
        observer(name)
    else:
        usable(kind, name)


def observer(name: str) -> tuple[PluginInfo, Any]:
    """An observer's hooks, once it says that it can work here: a module or object may carry a
    function `availability`, as factories do."""
    info = find("observer", name)
    try:
        hooks = _registered(info)
        ask = getattr(info.entry_point.load(), "availability", None)
        state = ask() if callable(ask) else Availability(ok=True)
    except (Exception, SystemExit) as error:
        raise broken(info, "failed to load", error) from error
    _require_available(info, state)
    return info, hooks


def observers(wanted: Iterable[str], say: Callable[[str], None] | None = None) -> Observers:
    """The named observers, loaded one by one; `say` hears of those that fail later."""
    return Observers([observer(name) for name in wanted], say or notices.to_standard_error)
