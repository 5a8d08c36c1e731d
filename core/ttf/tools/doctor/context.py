"""What several checks need to know; each fact is determined once, when it is first needed."""

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
    run_toml: Path | None = None
    say: Callable[[str], None] = lambda _: None  # gets the progress of slow checks
    root: Path = Path("/")  # tests use another folder
    no_trial: str = ""  # why the trial run is pointless, once a check has found a reason

    @cached_property
    def torch(self) -> Ended:
        # In a process without any other library.
        return run(Task(work="ttf.tools.doctor.tasks:torch_alone", deadline_s=120))

    @cached_property
    def config(self) -> Ended | None:
        # A child process reads it, because reading may load plugins.
        return None if self.run_toml is None else run(self.of_run("config"))

    @property
    def settings(self) -> Mapping[str, Any]:
        """The values by dotted key; empty if there is no configuration."""
        found: Mapping[str, Any] = self._answer.get("flat", {})
        return found

    def options_of(self, kind: str) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self._answer.get(f"{kind}s", {})
        return found

    @property
    def demo(self) -> bool:
        return bool(self._answer.get("demo"))

    @property
    def _answer(self) -> Mapping[str, Any]:
        ended = self.config
        return {} if ended is None or ended.answer is None else ended.answer

    def of_run(self, name: str, deadline_s: float = 60) -> Task:
        return Task(
            work=f"ttf.tools.doctor.run_tasks:{name}",
            request={"run_toml": str(self.run_toml)},
            deadline_s=deadline_s,
        )

    @cached_property
    def processors(self) -> tuple[int, str]:
        """How many may be used, and which limit says so."""
        count, quota = usable_processors(), cgroup_quota(self.root)
        if quota is not None and quota < count:
            return max(1, int(quota)), f"CPUs that the control group allows ({quota:g})"
        on_linux = sys.platform == "linux"
        return count, "CPUs that this process may use" if on_linux else "processors"
