"""Chooses the device and prepares the process for it before torch is loaded."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ttf.errors import ConfigError, PluginBroken, PluginUnavailable
from ttf.host import plugins
from ttf.machine.thread_variables import FEWER_THREADS, gives_fewer

if TYPE_CHECKING:
    from ttf.contracts import DeviceFactory, DevicePolicy

AUTO = "auto"
_THREADS_ANYWHERE: Final = 64
"""So many are taken on every machine: the run of a larger one can be resumed on a smaller one."""
_THREADS_PER_PROCESSOR: Final = 4
# The variables that `prepare` set, as JSON. Children inherit them: they are not the user's choice.
MARKER = "TTF_PREPARED"


_UNSET: Final = (
    "ttf ignores {}: with it, OpenMP can start fewer threads than torch expects, and the results "
    "would be wrong. To set the number of threads, use --threads."
)


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """What `prepare` did to the environment of this process."""

    applied: Mapping[str, str]
    # messages for the user: settings that were kept, settings that came too late
    notes: tuple[str, ...] = ()


def choose(
    name: str, options_by_name: Mapping[str, Any] | None = None, threads: int | None = None
) -> DevicePolicy:
    """Returns the policy of the device `name`.

    "auto" takes the best of the devices of ttf itself and explains the choice in `reason`; a
    third-party device must be named. `options_by_name` has validated options or their raw table per
    device. If `threads` is None, the user's OMP_NUM_THREADS counts.
    """
    wanted = options_by_name or {}
    if threads is not None:
        _refuse_threads_that_cannot_help(threads)
    count = threads if threads is not None else _threads_of_user()
    if name != AUTO:
        return plugins.usable("device", name).create(_options(name, wanted), count)
    return _best(wanted, count)


def _refuse_threads_that_cannot_help(threads: int) -> None:
    # libgomp ends the process where the system refuses a thread (limit of processes, cgroup).
    processors = os.cpu_count() or 1
    most = max(_THREADS_ANYWHERE, _THREADS_PER_PROCESSOR * processors)
    if threads > most:
        raise ConfigError(
            f"device.threads is {threads:,}, but this machine has {processors:,} "
            f"processor{'s' if processors != 1 else ''}. The limit is {most:,} threads here.",
            hint="More threads than processors make a run slower. Leave out --threads, or use "
            f"--threads {processors}.",
        )


def prepare(policy: DevicePolicy) -> Prepared:
    """Sets the environment variables of the policy. Must be called before torch is imported.

    A variable set by the user is kept, and named in the notes if the policy has another value.
    Variables with which torch computes wrong results are unset; raises ConfigError if it is too
    late for that.
    """
    ours = set_by_prepare()
    loaded = "torch" in sys.modules
    notes = _without_fewer_threads(policy.threads, loaded)
    applied: dict[str, str] = {}
    kept: list[str] = []
    late: list[str] = []
    for key, value in policy.environment().items():
        now = os.environ.get(key)
        if now == value:
            continue
        if now is not None and ours.get(key) != now:
            kept.append(f"{key}={now} (the device {policy.name} would set {value})")
            continue
        os.environ[key] = value
        applied[key] = value
        if loaded:
            late.append(f"{key}={value}")
    if applied:
        os.environ[MARKER] = json.dumps({**ours, **applied})
    if kept:
        notes.append("ttf keeps these values of your environment: " + ", ".join(kept) + ".")
    if late:
        notes.append(
            "torch was loaded before, so these settings may have no effect in this process: "
            + ", ".join(late)
            + "."
        )
    return Prepared(applied=applied, notes=tuple(notes))


def _without_fewer_threads(threads: int, loaded: bool) -> list[str]:
    if not loaded:
        unset = [f"{name}={os.environ.pop(name)}" for name in FEWER_THREADS if name in os.environ]
        return [_UNSET.format(", ".join(unset))] if unset else []
    if harmful := gives_fewer(os.environ, threads):
        values = " and ".join(f"{name}={os.environ[name]}" for name in harmful)
        raise ConfigError(
            f"{values} is set, and torch is already loaded. OpenMP can start fewer than the "
            f"{threads} threads that torch expects, and the results would be wrong.",
            hint=f"Unset {' and '.join(harmful)} before Python starts, or use one thread "
            "(--threads 1).",
        )
    return []


def _best(wanted: Mapping[str, Any], threads: int | None) -> DevicePolicy:
    usable: list[DeviceFactory] = []
    passed: list[str] = []
    for name in plugins.ours("device"):
        try:
            factory = plugins.usable("device", name)
        except (PluginUnavailable, PluginBroken) as error:
            passed.append(f"{name}: {_why_not(name, error)}")
        else:
            usable.append(factory)
    usable.sort(key=lambda factory: (-factory.preference, factory.name))
    for position, factory in enumerate(usable):
        options = _options(factory.name, wanted)
        try:
            policy = factory.create(options, threads)
        except PluginUnavailable as error:
            passed.append(f"{factory.name}: {error}")
            continue
        passed.extend(_less_preferred(usable[position + 1 :]))
        policy.reason = _reason(policy, passed)
        return policy
    raise PluginUnavailable(
        "No device is usable on this machine: "
        + ("; ".join(passed) or "no device plugin is installed"),
        hint="Reinstall twotower: its device cpu works on every machine.",
    )


def _less_preferred(factories: list[DeviceFactory]) -> list[str]:
    out = []
    for factory in factories:
        why = factory.availability().reason or "other devices are preferred"
        out.append(f"{factory.name}: usable, but {why}")
    return out


def _reason(policy: DevicePolicy, passed: list[str]) -> str:
    threads = f"{policy.threads} thread{'s' if policy.threads != 1 else ''}"
    return "; ".join(
        [f"the best device of this machine, with {threads}", *(f"not {p}" for p in passed)]
    )


def _why_not(name: str, error: PluginUnavailable | PluginBroken) -> str:
    if isinstance(error, PluginBroken):
        return str(error)
    return plugins.load("device", name).availability().reason


def _options(name: str, wanted: Mapping[str, Any]) -> Any:
    given = wanted.get(name, {})
    if not isinstance(given, Mapping):
        return given
    from ttf.host.options import checked

    return checked(plugins.load("device", name).options_type, given, f"device.{name}")


def _threads_of_user() -> int | None:
    value = os.environ.get("OMP_NUM_THREADS", "")
    if not value or set_by_prepare().get("OMP_NUM_THREADS") == value:
        return None
    first = value.split(",")[0].strip()
    return int(first) if first.isdigit() and int(first) > 0 else None


def set_by_prepare() -> dict[str, str]:
    """The variables of this process that are not the user's choice."""
    return dict(json.loads(os.environ.get(MARKER) or "{}"))
