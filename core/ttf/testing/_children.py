"""Child processes for tests that may crash or need a fresh process.

They are the child processes of the doctor: own session, deadline, stderr kept, every end
classified.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

import pytest

from ttf.supervise.isolated_tasks import Ended, Task, run
from ttf.tools.doctor import task_failures

DEADLINE_S: Final = 120.0


def ended(
    task: str, heard: Callable[[Mapping[str, Any]], None] | None = None, **request: Any
) -> Ended:
    """Runs a function of `_tasks` and returns how it ended."""
    work = f"ttf.testing._tasks:{task}"
    return run(Task(work=work, request=request, deadline_s=DEADLINE_S, heard=heard))


def answer(task: str, **request: Any) -> Mapping[str, Any]:
    """Returns the answer of the task; fails the test if there is none."""
    done = ended(task, **request)
    if done.answer is None or not done.well:
        pytest.fail(describe_end(done), pytrace=False)
    return done.answer


def describe_end(done: Ended) -> str:
    """Describes how a child ended, with the end of its stderr."""
    where = f" while {done.stage}" if done.stage else ""
    lines = [f"The process{where}: {task_failures.in_a_word(done)}", *task_failures.evidence(done)]
    return "\n".join([*lines, *done.stderr.splitlines()[-15:]])


def killed_while_saving(delay_s: float) -> Callable[[Mapping[str, Any]], None]:
    """Returns a listener that kills the child with SIGKILL `delay_s` after it started to save."""

    def heard(news: Mapping[str, Any]) -> None:
        if news.get("at") == "saving":
            time.sleep(delay_s)
            os.kill(int(news["pid"]), signal.SIGKILL)

    return heard
