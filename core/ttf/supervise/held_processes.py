"""Processes that were killed, and that the kernel does not let go."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ttf.supervise.events import now

if TYPE_CHECKING:
    from ttf.supervise.attempts import Waiting


class HeldProcesses:
    """They do nothing of their own any more, but what they wait for may still be written: no other
    trainer starts before they are gone."""

    def __init__(self, waiting: Waiting) -> None:
        """`waiting` shows what is waited for."""
        self._waiting = waiting
        self._processes: Sequence[subprocess.Popen[bytes]] = ()
        self._since = 0.0

    def keep(self, processes: Sequence[subprocess.Popen[bytes]]) -> None:
        self._processes, self._since = processes, now()

    def remain(self) -> bool:
        """Whether any of them is still there; if so, it is shown."""
        if not self._processes:
            return False
        self._processes = [process for process in self._processes if process.poll() is None]
        if self._processes:
            self._waiting(
                f"Process {self._processes[0].pid} was killed, but the kernel holds it until a disk or "
                "a device answers. The training goes on when it is gone.",
                now() - self._since,
            )
        else:
            self._waiting("")
        return bool(self._processes)
