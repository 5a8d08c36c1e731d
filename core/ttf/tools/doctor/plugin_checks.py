"""Checks from plugins (`check.<name>`): loaded and run in a child process."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

from ttf.hookspecs import Verdict
from ttf.host import plugins
from ttf.supervise.isolated_tasks import WAITS_S, Task, run
from ttf.tools.doctor.check import Check
from ttf.tools.doctor.context import Examination
from ttf.tools.doctor.task_failures import failed
from ttf.tools.doctor.tasks import LOADING_CHECK

DEADLINE_S: Final = 60.0


def foreign_checks(taken: set[str]) -> Iterator[Check]:
    """From metadata alone. If a name is taken, the distribution is added to it."""
    for info in plugins.installed():
        if info.kind == "check":
            name = plugins.choice_of(info)
            id_ = f"{info.distribution}:{info.name}" if info.name in taken else name
            title = f"a check of the distribution {info.distribution} {info.version}"
            run_it = partial(_run, name, info.distribution, f"{id_}: {title}")
            yield Check(id_, title, run_it, distribution=info.distribution)


def _run(name: str, owner: str, about: str, exam: Examination) -> Verdict:
    exam.say(about)
    request = {
        "name": name,
        "run_toml": None if exam.run_toml is None else str(exam.run_toml.absolute()),
        "settings": dict(exam.settings),
    }
    work = "ttf.tools.doctor.tasks:check"
    # The check itself may wait, for example for a machine; its import may not.
    task = Task(
        work=work, request=request, deadline_s=DEADLINE_S, idle_s=WAITS_S, idle_at=LOADING_CHECK
    )
    ended = run(task)
    if ended.answer is not None and ended.well:
        return Verdict.from_json(ended.answer)
    what = "raised" if ended.error is not None else "ended its process"
    remedy = f"Uninstall or upgrade {owner}, or disable it: TTF_DISABLE_PLUGINS={owner}."
    return failed(f"The check of the distribution {owner} {what}", ended, remedy=remedy)
