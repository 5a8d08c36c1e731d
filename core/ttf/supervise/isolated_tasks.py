"""Runs each task in a child process of its own; a crash of the process is a result, too.

Each process has its own session, a deadline, and its stderr kept, and runs without
KMP_DUPLICATE_LIB_OK, which would hide what is tested. Afterwards nothing is left of the process.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ttf.incidents.classify import classify
from ttf.incidents.death import Death, Finding, KilledByUs, ProcessEnd, ProcessName
from ttf.incidents.gather import Witness
from ttf.process import serve
from ttf.process.activity import bytes_moved, ticks
from ttf.process.child import TREE, WORKER, Child
from ttf.process.conversation import GRACE_S, Conversation, start_limit_s, wait

AT_ONCE: Final = 2
# A slow import computes or reads; one that does neither for so long waits for something.
WAITS_S: Final = 6.0
WAKE_S: Final = 0.1


@dataclass(frozen=True, kw_only=True)
class Task:
    """A task for a process of its own."""

    work: str  # "module:function", see `ttf.process.serve.Work`
    request: Mapping[str, Any] = field(default_factory=dict)
    deadline_s: float = 60.0  # counted from when the process is ready, like `quiet_s`
    quiet_s: float | None = None  # the task is also ended after so long without a message
    # It is also ended if it neither computes nor reads for so long (Linux).
    idle_s: float | None = None
    idle_at: str = ""  # only in this stage (see `Ended.stage`); empty: in each
    process: ProcessName = "command"  # how the explanation of a death names the process
    heard: Callable[[Mapping[str, Any]], None] | None = None  # called with each message at once


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How a task ended: with an answer, a Python error, or a death."""

    task: Task
    seconds: float
    notes: tuple[Mapping[str, Any], ...] = ()  # the messages before the end
    answer: Mapping[str, Any] | None = None
    error: Mapping[str, Any] | None = None  # as `ttf.process.error_document` writes it
    death: Death | None = None  # None after an answer or an error
    finding: Finding | None = None
    stderr: str = ""

    @property
    def stage(self) -> str:
        """The last stage that the task reported."""
        return _stage(self.notes)

    @property
    def well(self) -> bool:
        return self.death is None and self.error is None


def _stage(notes: Sequence[Mapping[str, Any]]) -> str:
    return next((str(note["at"]) for note in reversed(notes) if "at" in note), "")


def run(task: Task) -> Ended:
    return run_all([task])[0]


def run_all(tasks: Sequence[Task], *, at_once: int = AT_ONCE) -> list[Ended]:
    """Runs the tasks, `at_once` at a time; returns the results in the given order.

    Must be called from the main thread: the parent-death signal follows the thread that spawns.
    """
    with tempfile.TemporaryDirectory(prefix="ttf-doctor-", ignore_cleanup_errors=True) as folder:
        return _run_all(tasks, at_once, Path(folder))


def _run_all(tasks: Sequence[Task], at_once: int, folder: Path) -> list[Ended]:
    waiting = list(enumerate(tasks))
    running: dict[int, RunningTask] = {}
    ended: dict[int, Ended] = {}
    try:
        while waiting or running:
            while waiting and len(running) < at_once:
                number, task = waiting.pop(0)
                scratch = folder / str(number)
                scratch.mkdir()
                running[number] = RunningTask(task, scratch)
            wait([one.conversation for one in running.values()], WAKE_S)
            for number, one in list(running.items()):
                one.look()
                if not one.child.alive():
                    ended[number] = one.finish()
                    running.pop(number).close()
    finally:
        for one in running.values():
            one.close()
    return [ended[number] for number in range(len(tasks))]


class RunningTask:
    """A task whose process lives."""

    def __init__(self, task: Task, scratch: Path, *, warm: bool = False) -> None:
        """`warm`: the process does more tasks afterwards (`go_on`)."""
        module, _, function = task.work.partition(":")
        self._task = task
        # Libraries leave folders where temporary files go.
        environment = {"TMPDIR": str(scratch)}
        if warm:
            words, variable = serve.warm(module, None), WORKER
        else:
            words, variable = serve.once(module), TREE
        self.child = Child(words, variable=variable, environment=environment)
        self.conversation = Conversation(self.child, serve.task(function, task.request))
        self._witness = Witness(task.process, self.child.pid)
        self._started = time.monotonic()
        self._ready_at = self._started
        self._heard_at = self._started
        self._done: tuple[int | None, int | None] = (None, None)
        self._done_at = self._started
        self._messages: list[Mapping[str, Any]] = []
        self._killed: tuple[KilledByUs, str] = ("", "")

    def go_on(self, task: Task) -> None:
        """Asks a warm process that has answered for another task of its module."""
        self._task = task
        self._messages.clear()
        self._started = self._ready_at = self._heard_at = self._done_at = time.monotonic()
        self.conversation.send(serve.task(task.work.partition(":")[2], task.request))

    def look(self) -> None:
        """Reads the messages of the task; kills it after its deadline."""
        self._receive(self.conversation.take())
        self._witness.look()
        now, task = time.monotonic(), self._task
        if not self.conversation.ready:
            limit = start_limit_s(task.deadline_s)
            if now - self._started > limit:
                self._kill("hang", f"it did not start within {limit:.0f} s")
            self._ready_at = self._heard_at = now
        elif now - self._ready_at > task.deadline_s:
            self._kill("hang", f"it did not finish within {task.deadline_s:.0f} s")
        elif task.quiet_s is not None and now - self._heard_at > task.quiet_s:
            self._kill("hang", f"it sent no message for {task.quiet_s:.0f} s")
        elif task.idle_s is not None and self._must_work() and self._idle(now) > task.idle_s:
            self._kill("hang", f"it did nothing for {task.idle_s:.0f} s: it was waiting")

    def _must_work(self) -> bool:
        return not self._task.idle_at or _stage(self._messages) == self._task.idle_at

    def _idle(self, now: float) -> float:
        done = ticks(self.child.pid), bytes_moved(self.child.pid)
        if done != self._done or done == (None, None):
            self._done, self._done_at = done, now
        return now - self._done_at

    def finish(self) -> Ended:
        code = self.conversation.child.end(GRACE_S)
        self._receive(self.conversation.take())
        answer, error = self._last("answer"), self._last("error")
        raw = self.conversation.stderr.data()
        death = finding = None
        if code or self._killed[0] or (answer is None and error is None):
            end = ProcessEnd(
                returncode=code,
                killed=self._killed,
                stderr=raw,
                finished=answer is not None and not code,
            )
            death = self._witness.death(end)
            finding = classify(death)
        return self._ended(death, finding)

    def answered(self) -> Ended | None:
        """Of a warm process: None if it has neither an answer nor an error yet."""
        done = self._last("answer") is not None or self._last("error") is not None
        return self._ended(None, None) if done and not self._killed[0] else None

    def _ended(self, death: Death | None, finding: Finding | None) -> Ended:
        return Ended(
            task=self._task,
            seconds=time.monotonic() - self._started,
            notes=tuple(m for m in self._messages if not m.keys() & {"answer", "error"}),
            answer=self._last("answer"),
            error=self._last("error"),
            death=death,
            finding=finding,
            stderr=self.conversation.stderr.data().decode(errors="replace"),
        )

    def close(self) -> None:
        self.child.close()
        self._witness.close()

    def _last(self, key: str) -> Mapping[str, Any] | None:
        found = [m[key] for m in self._messages if isinstance(m.get(key), dict)]
        return found[-1] if found else None

    def _receive(self, messages: Sequence[Mapping[str, Any]]) -> None:
        for message in messages:
            self._messages.append(message)
            self._heard_at = time.monotonic()
            if self._task.heard is not None:
                self._task.heard(message)
        if self.conversation.garbage:
            self._kill("garbage", f"it sent an invalid message: {self.conversation.garbage}")

    def _kill(self, why: KilledByUs, reason: str) -> None:
        if self._killed[0]:
            return
        self._killed = (why, reason)
        if why == "hang" and self.conversation.stages:
            self.conversation.dump_stacks(None)
        self.child.kill()
