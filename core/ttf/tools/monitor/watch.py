"""Looks at a target repeatedly, even if its processes change."""

from __future__ import annotations

import time
from collections import deque
from typing import Final

from ttf.machine.memory.tree import TreeMemory, TreeReader
from ttf.machine.memory.watch import machine_memory, tree_reader
from ttf.tools.monitor import system
from ttf.tools.monitor.nearest_limit import LimitWatch, NearestLimit, forget_before
from ttf.tools.monitor.processes import SUPERVISOR, TRAINER, ProcessTable
from ttf.tools.monitor.reader import RunReader
from ttf.tools.monitor.trend import WINDOW_S, Point
from ttf.tools.monitor.view import Run, View
from ttf.tools.monitor.what_to_watch import Target, owner_of

_MOST_POINTS: Final = 4096
_SAME_S: Final = 1.0


class Monitor:
    """A look takes about half a millisecond, and the same again for each process."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._reader = None if target.folder is None else RunReader(target.folder)
        self._started = None if target.pid is None else system.started(target.pid)
        self._history: deque[Point] = deque(maxlen=_MOST_POINTS)
        self._attached: _Attached | None = None

    @property
    def name(self) -> str:
        target = self._target
        folder = "" if target.folder is None else str(target.folder)
        if target.pid is None:
            return folder
        return f"process {target.pid} of {folder}" if folder else f"process {target.pid}"

    def look(self) -> View:
        now, pid = time.time(), self._living()
        run = None if self._reader is None else self._reader.look(now, alive=pid is not None)
        if pid is None:
            return self._view(now, None, run)
        if self._attached is None or self._attached.pid != pid:
            self._attached = _Attached(pid, self._role(run))
            if self._reader is not None and not self._history:
                # The minutes before we came, as its supervisor wrote them.
                self._history.extend(p for p in self._reader.progress.memory if p[0] < now)
        return self._view(now, self._attached, run)

    def _living(self) -> int | None:
        target = self._target
        if target.pid is None:
            return None if target.folder is None else owner_of(target.folder)
        started = system.started(target.pid)
        if started is None or self._started is None or abs(started - self._started) > _SAME_S:
            return None
        return target.pid

    def _role(self, run: Run | None) -> str:
        # The holder of a run's lock is the supervisor or the trainer.
        if run is None or self._reader is None or self._target.pid is not None:
            return ""
        return SUPERVISOR if self._reader.folder.flight.exists() else TRAINER

    def _view(self, now: float, attached: _Attached | None, run: Run | None) -> View:
        processes = () if attached is None else attached.table.look(attached.pid)
        memory: TreeMemory | None = None
        limit: NearestLimit | None = None
        if attached is not None:
            try:
                memory = attached.tree()
                self._note(now, memory)
                limit = attached.limits.look(now, self._history)
            except ProcessLookupError:  # it ended while we looked: the next look says so
                memory = limit = None
        return View(
            time=now,
            name=self.name,
            pid=None if attached is None else attached.pid,
            processes=processes,
            memory=memory,
            limit=limit,
            machine=None if memory is None else machine_memory(),
            history=tuple(self._history),
            run=run,
            remarks=() if attached is None else attached.remarks,
        )

    def _note(self, now: float, memory: TreeMemory) -> None:
        self._history.append((now, memory.held))
        forget_before(self._history, now - WINDOW_S)


class _Attached:
    def __init__(self, pid: int, role: str) -> None:
        self.pid = pid
        self.table = ProcessTable(role)
        self.limits = LimitWatch(pid)
        self.tree: TreeReader = tree_reader(pid)
        self.remarks = tuple(_unseen(pid))


def _unseen(pid: int) -> list[str]:
    owner = system.owner(pid)
    if owner is None:
        return []
    text = (
        f"The process belongs to {owner}. ttf monitor therefore cannot see its limits (ulimit), "
        "its open files, and its shared pages."
    )
    return [text]
