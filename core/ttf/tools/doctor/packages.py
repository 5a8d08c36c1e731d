"""Checks `versions`, `impostor` and `plugins`: what is installed and whether it is sound."""

from __future__ import annotations

import platform
import re
from collections.abc import Iterator, Mapping
from importlib import metadata
from typing import Any, Final

from ttf.hookspecs import Verdict
from ttf.host import plugin_list, plugins as host
from ttf.host.distribution import CRASH_SIDE, FULL, NAME
from ttf.host.version import __version__
from ttf.supervise.isolated_tasks import WAITS_S, Ended, Task, run_all
from ttf.tools.doctor import known_bad, task_failures
from ttf.tools.doctor.check import fail, ok, warn
from ttf.tools.doctor.context import Examination

_REQUIREMENT: Final = re.compile(r"([A-Za-z0-9._-]+)(?:\[[^\]]*\])?\s*\(?([^;)]*)\)?\s*(;.*)?$")
_LOAD_S: Final = 30.0


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def installed_versions() -> dict[str, str]:
    """By normalised name. If a name is installed twice, the one that imports find wins."""
    found: dict[str, str] = {}
    for dist in metadata.distributions():
        name = dist.metadata["Name"]
        if name:
            found.setdefault(normal(name), dist.version)
    return found


# --- versions --------------------------------------------------------------------------------------


def look_at_versions(_: Examination) -> Verdict:
    here = installed_versions()
    rows = list(
        known_bad.fired(
            here,
            python=platform.python_version(),
            system=platform.system(),
            machine=platform.machine(),
        )
    )
    return judged(rows, here, list(too_old(here)))


def judged(rows: list[known_bad.Row], here: Mapping[str, str], old: list[str]) -> Verdict:
    guarded = [_fault_line(row, here) for row in rows if row.severity == "guarded"]
    bad = [row for row in rows if row.severity != "guarded"]
    evidence = [*old, *(_fault_line(row, here) for row in bad), *guarded]
    shown = ", ".join(f"{n} {here[n]}" for n in ("torch", "numpy", "faiss-cpu", "hnswlib", "zarr")
                      if n in here)  # fmt: skip
    if not bad and not old:
        known = f"; ttf avoids {len(guarded)} known fault(s)" if guarded else ""
        return ok(f"{shown or 'no numeric library'}: no known problem{known}", *evidence)
    remedy = " ".join(dict.fromkeys([*(row.remedy for row in bad), *(_UPGRADE for _ in old[:1])]))
    first = (
        old[0] if old else f"{_names_and_versions(bad[0], here)}: {bad[0].what} ({bad[0].issue})"
    )
    more = f", and {len(bad) + len(old) - 1} more" if len(bad) + len(old) > 1 else ""
    if old or any(row.severity == "fail" for row in bad):
        return fail(f"{first}{more}.", *evidence, remedy=remedy)
    return warn(f"{first}{more}.", *evidence, remedy=remedy)


_UPGRADE: Final = f'pip install --upgrade "{NAME}{"[all]" if NAME == FULL else ""}"'


def _names_and_versions(row: known_bad.Row, here: Mapping[str, str]) -> str:
    return " with ".join(f"{name} {here[name]}" for name in row.versions)


def _fault_line(row: known_bad.Row, here: Mapping[str, str]) -> str:
    return f"{_names_and_versions(row, here)}: {row.what} ({row.issue}, {row.date})"


def too_old(here: Mapping[str, str]) -> Iterator[str]:
    """Distributions older than ours requires; an optional one counts only if it is installed."""
    try:
        wanted = metadata.requires(NAME) or []
    except metadata.PackageNotFoundError:
        return
    for line in dict.fromkeys(wanted):
        found = _REQUIREMENT.match(line)
        if found is None:
            continue
        name, spec, optional = normal(found[1]), found[2].strip(), "extra" in (found[3] or "")
        if name not in here and not optional:
            yield f"{name} is not installed, but {NAME} needs it ({spec or 'any version'})"
        elif name in here and not known_bad.fits(here[name], spec):
            yield f"{name} {here[name]} is installed, but {NAME} needs {spec}"


# --- impostor --------------------------------------------------------------------------------------


def look_for_impostor(_: Examination) -> Verdict:
    # An unrelated public distribution `ttf` installs a module and a command of the same name.
    found = [d for d in metadata.distributions() if normal(d.metadata["Name"] or "") == "ttf"]
    evidence = [f"this ttf: version {__version__}, from {host.__file__}"]
    if found:
        versions = ", ".join(dist.version for dist in found)
        return fail(
            f"The distribution ttf ({versions}) is installed. It is a different program, and its "
            f"module and its command have the same name as those of {NAME}.",
            *evidence,
            remedy=f"pip uninstall ttf, then: {_AGAIN}",
        )
    versions_here = installed_versions()
    here = versions_here.get(NAME)
    if here is None:
        return warn(
            f"ttf can be imported, but the distribution {NAME} is not installed, so ttf finds "
            "none of its plugins.",
            *evidence,
            remedy=(
                "In the folder of the project: pip install -e . Without the project: pip "
                f"install {NAME}"
            ),
        )
    if here != __version__:
        return warn(
            f"The installed metadata belongs to {NAME} {here}, but the code has the version "
            f"{__version__}.",
            *evidence,
            remedy=(
                "In the folder of the project: pip install -e . Without the project: pip "
                f"install --force-reinstall {NAME}"
            ),
        )
    if NAME == FULL and CRASH_SIDE in versions_here:
        return ok(
            f"ttf belongs to {NAME} {here}; {CRASH_SIDE} {versions_here[CRASH_SIDE]} is installed "
            "as well, and not used",
            *evidence,
            f"removing {CRASH_SIDE} also removes the command ttf; it comes back with: {_AGAIN}",
        )
    return ok(f"ttf belongs to {NAME} {here}", *evidence)


_AGAIN: Final = f"pip install --force-reinstall --no-deps {NAME}"


# --- plugins ---------------------------------------------------------------------------------------


def look_at_plugins(exam: Examination) -> Verdict:
    # One process per distribution.
    exam.say("plugins: loads each plugin in its own process")
    states, dead = _loaded()
    broken = {name: state for name, state in states.items() if "broken" in state}
    refused = [f"{e.kind}.{e.name} of {e.distribution}: {e.reason}" for e in _refused()]
    lines = [f"{name}: {_state(state)}" for name, state in states.items()]
    evidence = [*refused, *lines]
    if dead:
        info, ended = dead[0]
        more = f" ({len(dead)} such plugins in total)" if len(dead) > 1 else ""
        return fail(
            f"{info.reference} of the distribution {info.distribution} {info.version} crashes the "
            f"process that loads it: {task_failures.in_a_word(ended)}{more}.",
            *task_failures.evidence(ended),
            *(
                f"{i.reference} of {i.distribution}: {task_failures.in_a_word(e)}"
                for i, e in dead[1:]
            ),
            *evidence,
            remedy=_disable_remedy(*(i.distribution for i, _ in dead)),
        )
    if broken or refused:
        first = next((str(s["broken"]) for s in broken.values()), refused[0] if refused else "")
        fix = next((str(s["fix"]) for s in broken.values() if s["fix"]), "")
        return warn(
            first,
            *evidence,
            remedy=fix
            or "Upgrade or uninstall these distributions. ttf does not use their plugins.",
        )
    waiting = [name for name, state in states.items() if not state["ok"]]
    rest = f"; these cannot be used on this machine: {', '.join(waiting)}" if waiting else ""
    return ok(f"{len(states)} plugins can be loaded{rest}", *evidence)


def _loaded() -> tuple[dict[str, Mapping[str, Any]], list[tuple[host.PluginInfo, Ended]]]:
    """The state of each plugin, and the plugins that ended their process.

    After a death, the remaining plugins of that process are loaded again without the culprit.
    """
    groups: dict[str, list[host.PluginInfo]] = {}
    for info in host.installed():
        groups.setdefault(info.distribution, []).append(info)
    states: dict[str, Mapping[str, Any]] = {}
    dead: list[tuple[host.PluginInfo, Ended]] = []
    waiting = list(groups.values())
    while waiting:
        ends = run_all([_task(group) for group in waiting])
        left = []
        for group, ended in zip(waiting, ends, strict=True):
            done = {n["plugin"]: n for n in ended.notes if "plugin" in n}
            states.update({_label(i): done[_choice(i)] for i in group if _choice(i) in done})
            rest = [info for info in group if _choice(info) not in done]
            if ended.well and not rest:
                continue
            culprit = next((i for i in group if _choice(i) == ended.stage), group[0])
            dead.append((culprit, ended))
            if rest and rest[0] is culprit:
                rest = rest[1:]
            left += [rest] if rest and len(rest) < len(group) else []
        waiting = left
    return states, dead


def _task(group: list[host.PluginInfo]) -> Task:
    plugins = [_choice(info).split(".", 1) for info in group]
    work = "ttf.tools.doctor.tasks:load_plugins"
    return Task(work=work, request={"plugins": plugins}, deadline_s=_LOAD_S, idle_s=WAITS_S)


def _choice(info: host.PluginInfo) -> str:
    return f"{info.kind}.{host.choice_of(info)}"


def _label(info: host.PluginInfo) -> str:
    ours = info.distribution == host.OURS
    return info.reference if ours else f"{info.reference} of {info.distribution}"


def _refused() -> list[plugin_list.Entry]:
    """Installed but not offered: another plugin API, or an unknown kind."""
    return [
        entry
        for entry in plugin_list.entries()
        if entry.available is False
        and host.normal(entry.distribution) not in host.disabled_distributions()
    ]


def _state(state: Mapping[str, Any]) -> str:
    if "broken" in state:
        return f"broken: {task_failures.one_line(str(state['broken']))}"
    return "loads" if state["ok"] else f"cannot be used on this machine: {state['reason']}"


def _disable_remedy(*distributions: str) -> str:
    names = ",".join(sorted(set(distributions)))
    return f"Uninstall or upgrade {names}. Until then, disable it: TTF_DISABLE_PLUGINS={names}."
