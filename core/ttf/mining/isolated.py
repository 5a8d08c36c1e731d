"""A conversation with the worker: one request, and everything that can come instead of an answer.

trainer                                    worker (own session)
  |-- life line: a request, held open ----->|  a thread reads: end of file -> exit at once
  |<-- results: say, progress, report ------|
  |<-- standard error ----------------------|  drained here, while somebody waits for an answer:
  |<-- pidfd: it is gone -------------------|  an idle worker that floods it blocks, and stays idle
"""

from __future__ import annotations

import os
import selectors
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from ttf.incidents.death import KilledByUs
from ttf.mining.worker_process import WorkerProcess
from ttf.process import messages

Say = Callable[[str], None]
WAKE_S: Final = 0.25
"""How long a request to stop may go unheard, and between two signs of life."""
_SUSPENDED_S: Final = 1.0
_MOST_READS: Final = 64


class NoAnswer(Exception):
    """The worker died, or must be ended: `why` is empty where it died by itself."""

    def __init__(self, why: KilledByUs, reason: str) -> None:
        super().__init__(reason)
        self.why = why


def ask(
    worker: WorkerProcess,
    job: Mapping[str, Any],
    deadline_s: float,
    *,
    say: Say,
    news: Callable[[int, int], None],
    wake: Callable[[], None],
) -> Mapping[str, Any]:
    """The worker's final message: it holds `report`, or `error`.

    `wake` is called several times a second while nothing is heard, too. Raises NoAnswer, and what
    `say`, `news` and `wake` raise; the worker is then in the middle of something: end it.
    """
    worker.requests += 1
    with selectors.DefaultSelector() as selector:
        talk = _Talk(worker, selector, say, news)
        talk.send({"request": worker.requests, "job": job})
        ends_at, wake_at = time.monotonic() + deadline_s, 0.0
        while talk.answer is None:
            if time.monotonic() >= wake_at:
                wake()
                wake_at = time.monotonic() + WAKE_S
            now = time.monotonic()
            if now >= ends_at:
                worker.dump_stacks()
                raise NoAnswer("hang", f"did not finish within {deadline_s:,.0f} s")
            timeout = max(0.0, min(ends_at, wake_at) - now)
            talk.listen(timeout)
            overslept = time.monotonic() - now - timeout
            if overslept > _SUSPENDED_S:  # the machine slept, or we were stopped: nobody's fault
                ends_at += overslept
        return talk.answer


class _Talk:
    """The descriptors of one request."""

    def __init__(
        self,
        worker: WorkerProcess,
        selector: selectors.BaseSelector,
        say: Say,
        news: Callable[[int, int], None],
    ) -> None:
        self._worker, self._selector, self._say, self._news = worker, selector, say, news
        self._frames = messages.Reader()
        self._to_send = memoryview(b"")
        self.answer: Mapping[str, Any] | None = None
        selector.register(worker.results, selectors.EVENT_READ, self._take_results)
        selector.register(worker.stderr, selectors.EVENT_READ, self._take_stderr)
        if worker.pidfd is not None:
            selector.register(worker.pidfd, selectors.EVENT_READ, self._take_death)

    def send(self, message: Mapping[str, Any]) -> None:
        """As far as the pipe takes it; the rest when it has room, so that nobody blocks."""
        self._to_send = memoryview(messages.encode(message))
        self._selector.register(self._worker.lifeline, selectors.EVENT_WRITE, self._send_more)

    def listen(self, timeout_s: float) -> None:
        for key, _ in self._selector.select(timeout_s):
            if self.answer is None and key.fd in self._selector.get_map():
                key.data()
        if self._worker.pidfd is None and self.answer is None and not self._worker.alive():
            self._take_death()

    def _send_more(self) -> None:
        try:
            self._to_send = self._to_send[os.write(self._worker.lifeline, self._to_send) :]
        except BlockingIOError:
            return
        except BrokenPipeError:
            self._to_send = memoryview(b"")  # it is dying: we shall hear
        if not self._to_send:
            self._selector.unregister(self._worker.lifeline)

    def _take_results(self) -> None:
        data = self._worker.read(self._worker.results)
        if data == b"":
            raise NoAnswer("", "")
        try:
            for message in self._frames.feed(data or b""):
                self._take(message)
        except messages.BrokenFrame as error:
            raise NoAnswer("garbage", f"sent what is no message: {error}") from None

    def _take(self, message: Mapping[str, Any]) -> None:
        if self.answer is not None or message.get("request") != self._worker.requests:
            raise NoAnswer("garbage", "sent an answer that nobody asked for")
        match message:
            case {"say": str(text)}:
                self._say(text)
            case {"progress": [int(done), int(total)]} if 0 <= done <= total:
                self._news(done, total)
            case {"report": dict()} | {"error": dict()}:
                self.answer = message
            case _:
                raise NoAnswer("garbage", f"sent an unknown message: {str(message)[:200]}")

    def _take_stderr(self) -> None:
        data = self._worker.read(self._worker.stderr)
        if data:
            self._worker.output.add(data)
        elif data is not None:
            self._selector.unregister(self._worker.stderr)

    def _take_death(self) -> None:
        """It may have answered before it died; the answer is as good as any."""
        for _ in range(_MOST_READS):
            data = self._worker.read(self._worker.results)
            if not data:
                break
            try:
                for message in self._frames.feed(data):
                    self._take(message)
            except messages.BrokenFrame:
                break
        if self.answer is None:
            raise NoAnswer("", "")
