"""The process that one task of the doctor runs in:
`python -m ttf.tools.doctor.child LIFELINE RESULTS DISPLAY PARENT`."""

from __future__ import annotations

import sys

from ttf.supervise.throwaway_main import Work, main
from ttf.tools.doctor import run_tasks, tasks


def work_of(name: str) -> Work:
    """The function of a task."""
    return {**tasks.TASKS, **run_tasks.TASKS}[name]


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[4]), work_of)
