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
        self.begin(task)
        while True:
            self.wait(WAKE_S)
            if (ended := self.look()) is not None:
                return ended

    def begin(self, task: Task) -> None:
        """As `ask`, without waiting; `look` often, until it has ended."""
        if self._running is None:
            self._running = RunningTask(task, Path(self._folder.name), warm=True)
        else:
            self._running.go_on(task)

    def wait(self, most_s: float) -> None:
        """For news of the task."""
        assert self._running is not None
        wait([self._running.conversation], most_s)

    def look(self) -> Ended | None:
        """None: it goes on."""
        one = self._running
        assert one is not None
        alive = one.child.alive()  # looked at first: it may answer and die at any moment
        one.look()
        ended = one.answered()
        return one.finish() if ended is None and not alive else ended

    def close(self) -> None:
        if self._running is not None:
            self._running.close()
        self._folder.cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
