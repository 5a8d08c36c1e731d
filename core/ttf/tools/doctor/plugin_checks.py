"""Checks that plugins bring (`check.<name>`): loaded and run in a process of their own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ttf.hookspecs import Verdict
from ttf.host import plugins
from ttf.supervise.isolated_tasks import Ended, Task, run
from ttf.tools.doctor import task_failures
from ttf.tools.doctor.check import fail
from ttf.tools.doctor.context import Examination

DEADLINE_S: Final = 60.0


class ForeignCheck:
    """A stranger's check, as one of ours: whatever it does, the doctor goes on."""

    def __init__(self, id: str, info: plugins.PluginInfo) -> None:
        self.id, self._info = id, info
        self.title = f"a check of the distribution {info.distribution} {info.version}"
        self.of_run = False
        self.distribution = info.distribution

    def run(self, exam: Examination) -> Verdict:
        exam.say(f"{self.id}: {self.title}")
        request = {
            "name": self._name(),
            "run_toml": None if exam.run_toml is None else str(exam.run_toml.absolute()),
            "settings": dict(exam.settings),
        }
        task = Task(work="ttf.tools.doctor.tasks:check", request=request, deadline_s=DEADLINE_S)
        ended = run(task)
        if ended.answer is not None and ended.well:
            return Verdict.from_json(ended.answer)
        return self._failed(ended)

    def _failed(self, ended: Ended) -> Verdict:
        owner = self._info.distribution
        what = "raised" if ended.error is not None else "ended its process"
        return fail(
            f"The check itself, of the distribution {owner}, {what}: {task_failures.in_a_word(ended)}.",
            *task_failures.evidence(ended),
            remedy=f"Uninstall or upgrade {owner}, or leave it out: TTF_DISABLE_PLUGINS={owner}.",
        )

    def _name(self) -> str:
        twice = self._info.name in plugins.claimed_twice("check")
        return f"{self._info.distribution}:{self._info.name}" if twice else self._info.name


def foreign_checks(taken: set[str]) -> Iterator[ForeignCheck]:
    """From metadata alone; a name that is taken is told apart by its distribution."""
    twice = plugins.claimed_twice("check")
    for info in plugins.installed():
        if info.kind == "check":
            clash = info.name in taken or info.name in twice
            yield ForeignCheck(f"{info.distribution}:{info.name}" if clash else info.name, info)
