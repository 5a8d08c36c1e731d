"""The trainer's end of a miner's worker: a warm child that answers one request after another, and
everything that can come instead of an answer."""

from __future__ import annotations

import contextlib
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from ttf.contracts import Progress
from ttf.incidents.death import KilledByUs
from ttf.incidents.gather import Witness
from ttf.incidents.inputs import look_at
from ttf.machine.thread_variables import thread_environment
from ttf.process import descendants, serve
from ttf.process.child import Child
from ttf.process.kept_output import BoundedOutput
from ttf.process.messages import Conversation, wait

Say = Callable[[str], None]
MODULE: Final = "ttf.mining.worker"
_WAKE_S: Final = 0.25
"""How long a request to stop may go unheard, and between two signs of life."""
_LOOK_EVERY_S: Final = 1.0
_SUSPENDED_S: Final = 1.0


class NoAnswer(Exception):
    """The worker died, or must be ended: `why` is empty where it died by itself."""

    def __init__(self, why: KilledByUs, reason: str) -> None:
        super().__init__(reason)
        self.why = why


class Request:
    """One request on its way: who listens to it, and what was heard."""

    def __init__(
        self, num_queries: int, say: Say, progress: Progress, beat: Callable[[], None]
    ) -> None:
        """`beat` and `progress` are also called several times a second while nothing is heard."""
        self.answer: Mapping[str, Any] | None = None
        """The worker's final message: it holds `answer`, or `error`."""
        self._say = say
        self._progress = progress
        self._beat = beat
        self._last = (0, num_queries)

    def wake(self) -> None:
        """Nothing new: what is known is said again, so that a stop is heard."""
        self._beat()
        self._progress(*self._last)

    def hear(self, message: Mapping[str, Any]) -> None:
        match message:
            case {"say": str(text)}:
                self._say(text)
            case {"progress": [int(done), int(total)]} if 0 <= done <= total:
                self._last = (done, total)
                self.wake()
            case {"answer": dict()} | {"error": dict()}:
                self.answer = message
            case _:
                raise NoAnswer("garbage", f"sent an unknown message: {str(message)[:200]}")


class WorkerProcess:
    """One process that answers requests for one miner; see `ttf.mining.worker` for its side.

    Make it in a thread that lives as long as it shall: it ends with that thread.
    """

    def __init__(self, miner: str, threads: int, stacks: Path | None) -> None:
        """`stacks` is a file that exists; None: its stacks go to standard error."""
        self.miner = miner
        self.threads = threads
        self._stacks = stacks
        self._inputs: tuple[str, ...] = ()
        self._requests = 0
        self._child = Child(
            serve.warm(MODULE, stacks),
            variable=descendants.WORKER,
            # Fixed before a library loads: OpenMP reads them once.
            environment=thread_environment(threads),
        )
        self._conversation = Conversation(self._child)
        self.witness = Witness("miner", self.pid, stacks=stacks)
        weakref.finalize(self, self.witness.close)

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def stderr(self) -> BoundedOutput:
        return self._conversation.stderr

    def alive(self) -> bool:
        return self._child.alive()

    def gone_within(self, seconds: float) -> bool:
        """Waits for its end."""
        return self._child.gone_within(seconds)

    def watch(self, inputs: Sequence[str]) -> None:
        """Notes what these files are, so that a death can be told from their change."""
        if tuple(inputs) != self._inputs:
            self._inputs = tuple(inputs)
            self.witness.inputs = ()
            with contextlib.suppress(OSError):  # one that cannot be read is met by whoever needs it
                self.witness.inputs = look_at(inputs)

    def ask(self, job: Mapping[str, Any], deadline_s: float, request: Request) -> Mapping[str, Any]:
        """The final message. Raises NoAnswer, and what the request's listeners raise; the worker is
        then in the middle of something: end it."""
        self._requests += 1
        self._conversation.send(serve.task("mine", job, self._requests))
        ends_at = time.monotonic() + deadline_s
        wake_at = witness_at = 0.0
        while request.answer is None:
            now = time.monotonic()
            if now >= witness_at:
                self.witness.look()
                witness_at = now + _LOOK_EVERY_S
            if now >= wake_at:
                request.wake()
                wake_at = now + _WAKE_S
            now = time.monotonic()
            if now >= ends_at:
                self._conversation.dump_stacks(self._stacks)
                raise NoAnswer("hang", f"did not finish within {deadline_s:,.0f} s")
            timeout = max(0.0, min(ends_at, wake_at) - now)
            wait([self._conversation], timeout)
            overslept = time.monotonic() - now - timeout
            if overslept > _SUSPENDED_S:  # the machine slept, or we were stopped: nobody's fault
                ends_at += overslept
            self._take(request)
        return request.answer

    def _take(self, request: Request) -> None:
        gone = not self.alive()  # looked at first: it may have answered and died since
        messages = self._conversation.take()
        for message in messages:
            if request.answer is not None or message.get("number") != self._requests:
                raise NoAnswer("garbage", "sent an answer that nobody asked for")
            request.hear(message)
        if self._conversation.garbage:
            raise NoAnswer("garbage", f"sent what is no message: {self._conversation.garbage}")
        # A process that it forked may hold its pipes open: their end need not come.
        if request.answer is None and (self._conversation.closed or (gone and not messages)):
            raise NoAnswer("", "")

    def end(self) -> int:
        """Kills it and whatever it started; its return code. What it wrote stays readable."""
        code, _ = self._conversation.finish(grace_s=0.0)
        return code

    def close(self) -> None:
        """Ends it, if it still lives, and lets go of it. May be called again."""
        self._child.close()
        self.witness.close()
