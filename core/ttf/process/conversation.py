"""What a parent and its child say to each other: the parent's end, and the thread of the child's.

parent                                     child (own session)
  |-- life line: messages, held open ----->|  a thread reads: end of file -> exit at once
  |<-- results: messages ------------------|
  |<-- standard error ---------------------|  kept within bounds
  |<-- pidfd: it is gone ------------------|
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from ttf.errors import ExitCode
from ttf.process import lifeline, messages
from ttf.process.bounded_output import BoundedOutput

if TYPE_CHECKING:
    from _typeshed import HasFileno

    from ttf.process.child import Child

_CHUNK: Final = 1 << 16
_FLOOD: Final = 1 << 20  # most bytes taken from one pipe in a row
_WAKE_S: Final = 0.25
_SUSPENDED_S: Final = 1.0
_STACKS_S: Final = 3.0
_STACKS_PAUSE_S: Final = 0.02
# The dump of stacks is taken as complete if it did not grow in so many looks; there is no end mark.
_STACKS_LOOKS: Final = 5
# Time for a child to become ready: it imports libraries, perhaps from an uncached disk or on a busy
# machine. Deadlines of requests start after that.
START_S: Final = 300.0
GRACE_S: Final = 5.0  # of a child that was asked to end
# What a child reports while it starts, in this order: its handlers for stack dumps are installed;
# it is ready to work.
STAGES: Final = ("handlers", "ready")


class NoAnswer(Exception):
    """The child died (`why` is '') or must be ended."""

    def __init__(self, why: Literal["", "hang", "garbage"], reason: str) -> None:
        super().__init__(reason)
        self.why = why


class Conversation:
    """The parent's end of a child's pipes: messages both ways, and its stderr.

    Uses no threads. Only `wait` and `ask` block.
    """

    def __init__(self, child: Child, request: Mapping[str, Any] | None = None) -> None:
        """`request` is sent at once."""
        self.child = child
        self.stderr = BoundedOutput()
        self.garbage = ""  # why its messages cannot be read any more; "" if they can
        self.stages: list[str] = []  # those of `STAGES` that it has reached
        self._reader = messages.Reader()
        self._asked = 0
        self._unsent = bytearray()
        self._open = {child.results, child.stderr}
        if request is not None:
            self.send(request)

    @property
    def ready(self) -> bool:
        return len(self.stages) == len(STAGES)

    @property
    def closed(self) -> bool:
        """The child closed its message pipe; the process may still live."""
        return self.child.results not in self._open

    def send(self, message: Mapping[str, Any]) -> bool:
        """Returns False if the child has not taken the whole message: it is gone, or hangs with a
        full pipe. Earlier unsent bytes go first; the rest is sent during later calls of `take`."""
        self._unsent += messages.encode(message)
        return self._send_rest()

    def _send_rest(self) -> bool:
        # A message must not stay incomplete.
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
        """Returns the new messages, without `STAGES`. Collects new stderr output."""
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
        # Limited, so that a flood from one pipe does not starve the rest.
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
        """Sends a numbered request and passes each reply to `hear` until `hear` returns True.

        The deadline counts from the call, or from when the child is ready, if that is later. `wake`
        is called several times a second, to handle a stop and to give signs of life. `stacks`: the
        file for the child's stacks. Raises NoAnswer, and what `hear` and `wake` raise; then the
        child is in an undefined state and must be ended.
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
                raise NoAnswer("hang", _deadline_text(deadline_s, starts=starts))
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
                raise NoAnswer("garbage", "sent an answer that was not requested")
            answered = hear(message)
        if self.garbage:
            raise NoAnswer("garbage", f"sent an invalid message: {self.garbage}")
        # What it forked may hold its pipes open: their end need not come.
        if not answered and (self.closed or (gone and not messages)):
            raise NoAnswer("", "")
        return answered

    def dump_stacks(self, file: Path | None) -> None:
        """Makes the child write its stacks to `file`, or to stderr.

        Also works while the child holds the interpreter lock (faulthandler's handler is C) or is
        stopped: then it is continued for that moment only.
        """
        held = lifeline.is_stopped(self.child.pid)
        seen = self._dumped(file)
        self.child.signal_main_thread(signal.SIGUSR1)
        if held:
            self.child.signal(signal.SIGCONT)
        self._wait_for_stacks(file, seen)
        if held:
            self.child.signal(signal.SIGSTOP)

    def _wait_for_stacks(self, file: Path | None, before: int) -> None:
        # Until the dump grows no more.
        seen, same = before, 0
        ends_at = time.monotonic() + _STACKS_S
        while same < _STACKS_LOOKS and time.monotonic() < ends_at:
            if self.child.gone_within(_STACKS_PAUSE_S):
                return
            size = self._dumped(file)
            same = same + 1 if size == seen != before else 0
            seen = size

    def _dumped(self, file: Path | None) -> int:
        """Returns the bytes written so far to where its stacks go."""
        if file is None:
            self.stderr.add(self._read(self.child.stderr))
            return self.stderr.num_bytes
        try:
            return file.stat().st_size
        except OSError:
            return 0

    def register(self, poll: select.poll) -> None:
        """Registers what ends a wait."""
        for fd in self._open:
            poll.register(fd, select.POLLIN)
        if self.child.pidfd is not None:
            poll.register(self.child.pidfd, select.POLLIN)
        if self._unsent:
            poll.register(self.child.lifeline, select.POLLOUT)


def wait(conversations: Iterable[Conversation], timeout_s: float, *others: HasFileno) -> None:
    """Waits until a child has something to take or has ended, at most `timeout_s`."""
    poll = select.poll()
    for conversation in conversations:
        conversation.register(poll)
    for other in others:
        poll.register(other, select.POLLIN)
    poll.poll(max(0.0, timeout_s) * 1000)


def start_limit_s(deadline_s: float) -> float:
    """Returns how long a child may take until it is ready for a request with this deadline."""
    return max(deadline_s, START_S)


def _deadline_text(deadline_s: float, *, starts: bool) -> str:
    if starts:
        return f"did not start within {start_limit_s(deadline_s):,.0f} s"
    return f"did not finish within {deadline_s:,.0f} s"


# --- the child's end -------------------------------------------------------------------------------


def tell(results: int, message: Mapping[str, Any]) -> None:
    """Sends a message to the parent. Ends this process if the pipe was closed from within."""
    try:
        messages.write(results, message)
    except OSError as error:
        if error.errno != errno.EBADF:
            raise
        lifeline.leave_without_pipes()


def follow(life: int, handle: Callable[[dict[str, Any]], None]) -> threading.Thread:
    """Starts the thread that passes the parent's messages to `handle` and ends the process at end
    of file."""
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
