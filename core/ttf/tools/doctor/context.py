"""One visit to the doctor: what several checks need to know, found out once and when it is needed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from ttf.machine.processor import cgroup_quota, usable_processors
from ttf.supervise.isolated_tasks import Ended, Task, run


@dataclass(eq=False)
class Examination:
    """Where checks look: this machine and this environment, and a configuration if there is one."""

    run_toml: Path | None = None
    say: Callable[[str], None] = lambda _: None
    """Hears what slow checks are at."""
    root: Path = Path("/")
    """Another folder in tests."""
    no_trial: str = ""
    """Why the run should not even be tried, once a check has found that out."""

    @cached_property
    def torch(self) -> Ended:
        """torch, all alone."""
        return run(Task(work="ttf.tools.doctor.tasks:torch_alone", deadline_s=120))

    @cached_property
    def config(self) -> Ended | None:
        """The configuration, read by a process that may load its plugins; None without one."""
        return None if self.run_toml is None else run(self.of_run("config"))

    @property
    def settings(self) -> Mapping[str, Any]:
        """Its values by dotted key; {} where there are none."""
        found: Mapping[str, Any] = self._answer.get("flat", {})
        return found

    def options_of(self, kind: str) -> Mapping[str, Any]:
        """The tables of options that a configuration has for miners or devices."""
        found: Mapping[str, Any] = self._answer.get(f"{kind}s", {})
        return found

    @property
    def demo(self) -> bool:
        return bool(self._answer.get("demo"))

    @property
    def _answer(self) -> Mapping[str, Any]:
        ended = self.config
        return {} if ended is None or ended.answer is None else ended.answer

    @property
    def has_settings(self) -> bool:
        return bool(self.settings)

    def of_run(self, name: str, deadline_s: float = 60) -> Task:
        """A task about the configuration."""
        return Task(
            work=f"ttf.tools.doctor.run_tasks:{name}",
            request={"run_toml": str(self.run_toml)},
            deadline_s=deadline_s,
        )

    @cached_property
    def processors(self) -> tuple[int, str]:
        """How many may be used, and who says so."""
        count, quota = usable_processors(), cgroup_quota(self.root)
        if quota is not None and quota < count:
            return max(1, int(quota)), f"of processor time its control group may use ({quota:g})"
        on_linux = sys.platform == "linux"
        return count, "processors this process may run on" if on_linux else "processors"
