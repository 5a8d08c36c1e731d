"""What may kill its process, or must start from a clean one, is done in a child of the test.

The child is the doctor's: its own session, a deadline, its stderr kept, every end classified.
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
    """However it ended; `task` is a function of `_tasks`."""
    work = f"ttf.testing._tasks:{task}"
    return run(Task(work=work, request=request, deadline_s=DEADLINE_S, heard=heard))


def answer(task: str, **request: Any) -> Mapping[str, Any]:
    """What the task answered; the test fails with how it ended where it did not."""
    done = ended(task, **request)
    if done.answer is None or not done.well:
        pytest.fail(told(done), pytrace=False)
    return done.answer


def told(done: Ended) -> str:
    """How a child ended, with what it said last."""
    where = f" while {done.stage}" if done.stage else ""
    lines = [f"The process{where}: {task_failures.in_a_word(done)}", *task_failures.evidence(done)]
    return "\n".join([*lines, *done.stderr.splitlines()[-15:]])


def killed_while_saving(delay_s: float) -> Callable[[Mapping[str, Any]], None]:
    """Hears a child that saves, and kills it with SIGKILL some seconds after it began."""

    def heard(news: Mapping[str, Any]) -> None:
        if news.get("at") == "saving":
            time.sleep(delay_s)
            os.kill(int(news["pid"]), signal.SIGKILL)

    return heard
