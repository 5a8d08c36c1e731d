"""All checks in their order: quick checks that explain later failures come first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ttf.errors import UnknownName
from ttf.host import distribution
from ttf.tools.doctor import (
    coload,
    devices,
    disk_and_limits,
    interpreter,
    memory,
    openmp,
    packages,
    run_checks,
    trial,
)
from ttf.tools.doctor.check import Check
from ttf.tools.doctor.plugin_checks import foreign_checks

OF_ANOTHER_PYTHON: Final = "ttf doctor --python PATH   (the Python of your script)"

OURS_ALL: Final = (
    Check(
        "config",
        "is the configuration valid, and can its plugins be loaded?",
        run_checks.look_at_config,
        of_run=True,
    ),
    Check("python", "is this Python suitable?", interpreter.look_at_python),
    Check(
        "impostor",
        "is the unrelated distribution ttf installed?",
        packages.look_for_impostor,
    ),
    Check("versions", "do the installed versions have known faults?", packages.look_at_versions),
    Check(
        "environment",
        "do environment variables hide faults or slow down the training?",
        interpreter.look_at_environment,
    ),
    Check("memory", "how much memory may be used, and is it enough?", memory.look_at_memory),
    Check(
        "cgroup",
        "which memory limit has the control group, and were there OOM kills?",
        memory.look_at_cgroup,
    ),
    Check("shm", "is there enough shared memory?", disk_and_limits.look_at_shm),
    Check(
        "disk",
        "is there enough space for runs, cache and temporary files?",
        disk_and_limits.look_at_disk,
    ),
    Check("ulimits", "which limits has a process (ulimit)?", disk_and_limits.look_at_ulimits),
    Check(
        "openmp-duplicates",
        "do several packages contain an OpenMP runtime?",
        openmp.look_for_duplicates,
    ),
    Check("plugins", "can every installed plugin be loaded?", packages.look_at_plugins),
    Check("torch", "does torch work alone in a process?", interpreter.look_at_torch),
    Check("device", "which device would a run use?", devices.look_at_device),
    Check("coload", "does torch work in one process with each miner?", coload.look_at_coloading),
    Check("data", "is the data valid?", run_checks.look_at_data, of_run=True),
    Check("plan", "is there enough memory for the run?", run_checks.look_at_plan, of_run=True),
    Check("steps", "do three real training steps work?", trial.look_at_steps, of_run=True),
)


# Of our own runs and plugins, which twotower-guard does not have.
_OF_TRAINING: Final = frozenset(
    {"config", "plugins", "torch", "device", "coload", "data", "plan", "steps"}
)


def all_checks() -> list[Check]:
    """Our checks, then those of plugins; imports no plugin."""
    trains = distribution.NAME == distribution.FULL
    ours = [check for check in OURS_ALL if trains or check.id not in _OF_TRAINING]
    return [*ours, *foreign_checks({check.id for check in OURS_ALL})]


def chosen(ids: Sequence[str]) -> list[Check]:
    """The checks with these ids, or all, in the order of `all_checks`. Raises UnknownName."""
    every = all_checks()
    known = {check.id for check in every}
    for name in ids:
        if name in _OF_TRAINING:
            distribution.require_full(f"The check {name}", instead=OF_ANOTHER_PYTHON)
        if name not in known:
            raise UnknownName("check", name, known)
    return [check for check in every if not ids or check.id in ids]
