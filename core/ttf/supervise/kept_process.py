"""One process for several tasks of a module, one after another: what it has loaded stays loaded."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Self

from ttf.process.conversation import wait
from ttf.supervise.isolated_tasks import WAKE_S, Ended, RunningTask, Task


class KeptProcess:
    """Starts with the first task, ends with the `with` block. A death is a result, as in
    `isolated_tasks`; nobody looks at the process between two tasks, where it waits.

    Use it in the main thread: the parent-death signal follows the thread that spawns.
    """

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="ttf-task-", ignore_cleanup_errors=True)
        self._running: RunningTask | None = None

    def ask(self, task: Task) -> Ended:
        """All tasks are of one module. Ask nothing more after a death."""
        if self._running is None:
            self._running = RunningTask(task, Path(self._folder.name), warm=True)
        else:
            self._running.go_on(task)
        one = self._running
        while True:
            wait([one.conversation], WAKE_S)
            alive = one.child.alive()  # looked at first: it may answer and die at any moment
            one.look()
            if (ended := one.answered()) is not None:
                return ended
            if not alive:
                return one.finish()

    def close(self) -> None:
        if self._running is not None:
            self._running.close()
        self._folder.cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
