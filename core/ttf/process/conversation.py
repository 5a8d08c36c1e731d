"""What a parent and its child say to each other: the parent's end, and the child's, which is also the
program of every child that does tasks.

parent                                     child (own session)
  |-- life line: messages, held open ----->|  a thread reads: end of file -> exit at once
  |<-- results: messages ------------------|
  |<-- standard error ---------------------|  kept within bounds
  |<-- pidfd: it is gone ------------------|

`python -m ttf.process.conversation MODULE KIND STACKS LIFELINE RESULTS PARENT` calls the functions of
MODULE that its parent names in messages on the life line, and sends back what they tell and answer.
"once": it does one task, and ends as any program ends, because a crash while libraries are torn down
counts as well. "warm": it takes one task after another, with its imports kept, until its parent ends
it. STACKS is a file; empty: standard error.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import queue
import select
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

from ttf.errors import ExitCode
from ttf.process import lifeline, messages
from ttf.process.bounded_output import BoundedOutput
from ttf.process.child import WORKER

if TYPE_CHECKING:
    from ttf.process.child import Child

_CHUNK: Final = 1 << 16
_FLOOD: Final = 1 << 20
"""Most bytes taken from one pipe in a row."""
_WAKE_S: Final = 0.25
_SUSPENDED_S: Final = 1.0
_STACKS_S: Final = 3.0
_STACKS_PAUSE_S: Final = 0.02
_STACKS_LOOKS: Final = 5
"""So often in a row nothing more came: then the dump is whole, which nothing else tells."""
START_S: Final = 300.0
"""A child may take so long until it can work: it imports libraries, from a cold disk or on a busy
machine. No deadline of a request counts before that."""
STAGES: Final = ("handlers", "ready")
"""What a child that does tasks says of its start, in this order: it writes its stacks when it
is asked to; it can work."""

Tell = Callable[[Mapping[str, Any]], None]
Work = Callable[[Mapping[str, Any], Tell], Mapping[str, Any] | None]
"""A task: takes the request and a function that sends news, and returns the answer; None where it
has told that already."""
WARM: Final = "warm"
# faulthandler also for what dies before `main`: an interpreter in a broken environment.
_SERVE: Final = ("-Xfaulthandler", "-m", "ttf.process.conversation")


class NoAnswer(Exception):
    """The child died, or must be ended: `why` is empty where it died by itself."""

    def __init__(self, why: Literal["", "hang", "garbage"], reason: str) -> None:
        super().__init__(reason)
        self.why = why


class HasFileno(Protocol):
    """Something that a poll can wait for."""

    def fileno(self) -> int: ...


class Conversation:
    """The parent's end of a child's pipes: messages both ways, and its standard error.

    No threads, and nothing blocks but `wait` and `ask`."""

    def __init__(self, child: Child, request: Mapping[str, Any] | None = None) -> None:
        """`request`: what it is to begin with."""
        self.child = child
        self.stderr = BoundedOutput()
        self.garbage = ""
        """Why its messages cannot be read any more; empty while they can."""
        self.stages: list[str] = []
        """Those of `STAGES` that it has reached."""
        self._reader = messages.Reader()
        self._asked = 0
        self._unsent = bytearray()
        self._open = {child.results, child.stderr}
        if request is not None:
            self.send(request)

    @property
    def ready(self) -> bool:
        """It has started, and works at what it is asked."""
        return len(self.stages) == len(STAGES)

    @property
    def closed(self) -> bool:
        """It can say no more; its process may live."""
        return self.child.results not in self._open

    def send(self, message: Mapping[str, Any]) -> bool:
        """False where the child has not taken it: it is gone, or hangs with a full pipe. What is
        in the way of a message is sent first, and its rest while its answers are taken."""
        self._unsent += messages.encode(message)
        return self._send_rest()

    def _send_rest(self) -> bool:
        """Half a message must not stay half."""
        while self._unsent:
            try:
                del self._unsent[: os.write(self.child.lifeline, self._unsent)]
            except BlockingIOError:
                return False
            except BrokenPipeError:  # it is dying: its end will be noticed
                self._unsent.clear()
                return False
        return True

    def take(self) -> list[dict[str, Any]]:
        """The messages that came, those about its start excepted; keeps what came on standard
        error."""
        self._send_rest()
        self.stderr.add(self._read(self.child.stderr))
        taken: list[dict[str, Any]] = []
        data = self._read(self.child.results)
        if not self.garbage:
            try:
                for message in self._reader.feed(data):
                    if not self.ready and message == {"stage": STAGES[len(self.stages)]}:
                        self.stages.append(message["stage"])
                    else:
                        taken.append(message)
            except messages.BrokenFrame as error:
                self.garbage = str(error)
        return taken

    def _read(self, fd: int) -> bytes:
        """All there is, within limits: a flood must not starve the rest."""
        found = bytearray()
        while fd in self._open and len(found) < _FLOOD:
            try:
                data = os.read(fd, _CHUNK)
            except BlockingIOError:
                break
            if not data:  # a poll would report the end of file again and again
                self._open.discard(fd)
            found += data
        return bytes(found)

    def ask(
        self,
        message: Mapping[str, Any],
        deadline_s: float,
        hear: Callable[[Mapping[str, Any]], bool],
        wake: Callable[[], None],
        *,
        stacks: Path | None = None,
    ) -> None:
        """Sends a numbered request, and hands what comes back to `hear`, until that is True.

        The deadline counts from when it is asked, or from when it is ready, if that is later.
        `wake` is called several times a second, so that a stop is heard and signs of life are given.
        Raises NoAnswer, and what `hear` and `wake` raise; the child is then in the middle of
        something: end it. `stacks`: the file where it writes them.
        """
        self._asked += 1
        self.send({"number": self._asked, **message})
        starts = not self.ready
        ends_at = time.monotonic() + (start_limit_s(deadline_s) if starts else deadline_s)
        wake_at = 0.0
        answered = False
        while not answered:
            if starts and self.ready:
                starts = False
                ends_at = time.monotonic() + deadline_s
            if time.monotonic() >= wake_at:
                wake()
                wake_at = time.monotonic() + _WAKE_S
            now = time.monotonic()
            if now >= ends_at:
                if self.stages:
                    self.dump_stacks(stacks)
                raise NoAnswer("hang", _late(deadline_s, starts=starts))
            timeout = max(0.0, min(ends_at, wake_at) - now)
            wait([self], timeout)
            overslept = time.monotonic() - now - timeout
            if overslept > _SUSPENDED_S:  # the machine slept, or we were stopped: nobody's fault
                ends_at += overslept
            answered = self._answered(hear)

    def _answered(self, hear: Callable[[Mapping[str, Any]], bool]) -> bool:
        gone = not self.child.alive()  # looked at first: it may answer and die at any moment
        answered = False
        messages = self.take()
        for message in messages:
            if answered or message.get("number") != self._asked:
                raise NoAnswer("garbage", "sent an answer that nobody asked for")
            answered = hear(message)
        if self.garbage:
            raise NoAnswer("garbage", f"sent what is no message: {self.garbage}")
        # What it forked may hold its pipes open: their end need not come.
        if not answered and (self.closed or (gone and not messages)):
            raise NoAnswer("", "")
        return answered

    def finish(self, grace_s: float = 5.0) -> tuple[int, list[dict[str, Any]]]:
        """The child's return code, and the messages it left; ends it, and what it started.

        What lies in the pipes is read once: a process that escaped the kill may hold them open, so
        that their end is not waited for.
        """
        code = self.child.end(grace_s)
        return code, self.take()

    def dump_stacks(self, file: Path | None) -> None:
        """Has its stacks written, to this file or to standard error: also while it holds the
        interpreter lock (faulthandler's handler is C), or is stopped: then it is continued for that
        moment, and not for longer."""
        held = lifeline.is_stopped(self.child.pid)
        seen = self._dumped(file)
        self.child.signal_main_thread(signal.SIGUSR1)
        if held:
            self.child.signal(signal.SIGCONT)
        self._wait_for_stacks(file, seen)
        if held:
            self.child.signal(signal.SIGSTOP)

    def _wait_for_stacks(self, file: Path | None, before: int) -> None:
        """Until they grow no more."""
        seen, same = before, 0
        ends_at = time.monotonic() + _STACKS_S
        while same < _STACKS_LOOKS and time.monotonic() < ends_at:
            if self.child.gone_within(_STACKS_PAUSE_S):
                return
            size = self._dumped(file)
            same = same + 1 if size == seen != before else 0
            seen = size

    def _dumped(self, file: Path | None) -> int:
        """How much it has written where its stacks go."""
        if file is None:
            self.stderr.add(self._read(self.child.stderr))
            return self.stderr.num_bytes
        try:
            return file.stat().st_size
        except OSError:
            return 0

    def waited_for(self, poll: select.poll) -> None:
        """Adds what would end a wait."""
        for fd in self._open:
            poll.register(fd, select.POLLIN)
        if self.child.pidfd is not None:
            poll.register(self.child.pidfd, select.POLLIN)
        if self._unsent:
            poll.register(self.child.lifeline, select.POLLOUT)


def wait(conversations: Iterable[Conversation], timeout_s: float, *others: HasFileno) -> None:
    """Until one of them has something to take, or has ended; at most so long."""
    poll = select.poll()
    for conversation in conversations:
        conversation.waited_for(poll)
    for other in others:
        poll.register(other, select.POLLIN)
    poll.poll(max(0.0, timeout_s) * 1000)


def start_limit_s(deadline_s: float) -> float:
    """How long a child may take until it is ready for a request with this deadline."""
    return max(deadline_s, START_S)


def _late(deadline_s: float, *, starts: bool) -> str:
    if starts:
        return f"was not ready to work within {start_limit_s(deadline_s):,.0f} s"
    return f"did not finish within {deadline_s:,.0f} s"


# --- the child's end -------------------------------------------------------------------------------


def follow(life: int, handle: Callable[[dict[str, Any]], None]) -> threading.Thread:
    """Starts the thread that hands over the parent's messages and ends the process at end of
    file."""
    thread = threading.Thread(target=_follow, args=(life, handle), name="ttf-lifeline", daemon=True)
    thread.start()
    return thread


def _follow(life: int, handle: Callable[[dict[str, Any]], None]) -> None:
    reader = messages.Reader()
    try:
        with contextlib.suppress(OSError):
            while data := os.read(life, _CHUNK):
                for message in reader.feed(data):
                    handle(message)
    except BaseException:  # noqa: BLE001 - deaf, it would hang: better an end that says why
        traceback.print_exc()
        os._exit(int(ExitCode.OUR_FAULT))
    os._exit(lifeline.ORPHANED)  # not sys.exit: that ends this thread alone


def once(module: str) -> tuple[str, ...]:
    """The words that start a child for one task."""
    return (*_SERVE, module, "once", "")


def warm(module: str, stacks: Path | None) -> tuple[str, ...]:
    """The words that start a child for many. `stacks` is a file that exists."""
    return (*_SERVE, module, WARM, str(stacks or ""))


def task(name: str, request: Mapping[str, Any]) -> dict[str, Any]:
    """The message that asks for one; all that is sent back bears its number, where it has one."""
    return {"task": name, "request": dict(request)}


def main(module: str, kind: str, stacks: str, life: int, results: int, parent: int) -> None:
    lifeline.die_with_parent(parent)
    for fd in (life, results):  # what it starts must not hold the pipes
        os.set_inheritable(fd, False)
    if kind == WARM:
        lifeline.start_keeper(life, WORKER)
    lifeline.be_killed_first()  # after the fork: the keeper must outlive this process
    lifeline.stacks_to(Path(stacks) if stacks else None)
    requests: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    handlers, ready = ({"stage": stage} for stage in STAGES)
    messages.write(results, handlers)
    follow(life, requests.put)
    _answer(module, requests.get(), results, kind, when_ready=ready)
    while kind == WARM:
        _answer(module, requests.get(), results, kind)


def _answer(
    module: str,
    message: Mapping[str, Any],
    results: int,
    kind: str,
    when_ready: Mapping[str, Any] | None = None,
) -> None:
    """`when_ready`: is told once the module is imported, which takes its time."""

    def tell(news: Mapping[str, Any]) -> None:
        messages.write(results, {"number": message.get("number", 0), **news})

    # A plugin that calls sys.exit ends a warm child, and is an error to one that would end anyway.
    caught = (Exception,) if kind == WARM else (Exception, SystemExit)
    try:
        work: Work = getattr(importlib.import_module(module), message["task"])
        if when_ready is not None:
            messages.write(results, when_ready)
        answer = work(message["request"], tell)
    except caught as error:
        from ttf.process.error_document import to_document

        tell({"error": to_document(error)})
        return
    if answer is not None:
        tell({"answer": dict(answer)})


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], *map(int, sys.argv[4:7]))
