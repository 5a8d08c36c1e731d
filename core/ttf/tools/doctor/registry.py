"""Every check, in the order they are made: what is quick and explains the rest comes first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from ttf.errors import UnknownName
from ttf.hookspecs import Verdict
from ttf.host.plugins import OURS
from ttf.tools.doctor import (
    coload,
    devices,
    interpreter,
    openmp,
    packages,
    places,
    resources,
    run_checks,
    steps as steps_,
)
from ttf.tools.doctor.context import Examination
from ttf.tools.doctor.plugin_checks import foreign_checks


class AnyCheck(Protocol):
    """One of ours, or a stranger's in disguise."""

    @property
    def id(self) -> str: ...

    @property
    def title(self) -> str: ...

    @property
    def of_run(self) -> bool:
        """It looks at a configuration, and needs one."""
        ...

    @property
    def distribution(self) -> str: ...

    @property
    def run(self) -> Callable[[Examination], Verdict]: ...


@dataclass(frozen=True, kw_only=True)
class OurCheck:
    """A check that comes with ttf."""

    id: str
    title: str
    run: Callable[[Examination], Verdict]
    of_run: bool = False
    distribution: str = OURS


OURS_ALL: Final[tuple[OurCheck, ...]] = (
    OurCheck(
        id="config",
        title="is the configuration valid, with its plugins?",
        run=run_checks.look_at_config,
        of_run=True,
    ),
    OurCheck(id="python", title="does the interpreter do?", run=interpreter.look_at_python),
    OurCheck(
        id="impostor",
        title="is the unrelated distribution named ttf in the way?",
        run=packages.look_for_impostor,
    ),
    OurCheck(
        id="versions",
        title="are versions installed that are known to go wrong?",
        run=packages.look_at_versions,
    ),
    OurCheck(
        id="environment",
        title="do variables hide faults or slow things down?",
        run=interpreter.look_at_environment,
    ),
    OurCheck(
        id="memory",
        title="how much memory may be used, and is it enough?",
        run=resources.look_at_memory,
    ),
    OurCheck(
        id="cgroup",
        title="what does the control group allow, and has it killed?",
        run=resources.look_at_cgroup,
    ),
    OurCheck(id="shm", title="is there shared memory?", run=places.look_at_shm),
    OurCheck(
        id="disk",
        title="is there room for runs, cache and temporary files?",
        run=places.look_at_disk,
    ),
    OurCheck(id="ulimits", title="what may a process do?", run=places.look_at_ulimits),
    OurCheck(
        id="openmp-duplicates",
        title="do several packages bring an OpenMP runtime?",
        run=openmp.look_for_duplicates,
    ),
    OurCheck(id="plugins", title="does every installed plugin load?", run=packages.look_at_plugins),
    OurCheck(id="torch", title="does torch work, all alone?", run=interpreter.look_at_torch),
    OurCheck(id="device", title="what would a run compute on?", run=devices.look_at_device),
    OurCheck(
        id="coload",
        title="does torch live with each miner in one process?",
        run=coload.look_at_coloading,
    ),
    OurCheck(id="data", title="is the data sound?", run=run_checks.look_at_data, of_run=True),
    OurCheck(
        id="plan", title="does the run fit into memory?", run=run_checks.look_at_plan, of_run=True
    ),
    OurCheck(id="steps", title="do three real steps work?", run=steps_.look_at_steps, of_run=True),
)


def all_checks() -> list[AnyCheck]:
    """Ours, then those of plugins; no plugin is imported."""
    return [*OURS_ALL, *foreign_checks({check.id for check in OURS_ALL})]


def chosen(ids: Sequence[str]) -> list[AnyCheck]:
    """The checks with these ids, in the order of `all_checks`; all of them for none. Raises
    UnknownName with the closest."""
    every = all_checks()
    known = {check.id for check in every}
    for name in ids:
        if name not in known:
            raise UnknownName("check", name, known)
    return [check for check in every if not ids or check.id in ids]
