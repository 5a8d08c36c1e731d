"""The trainer's connection to its supervisor, if it has one."""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from ttf.host.at_work import PluginWork
from ttf.process import conversation, lifeline
from ttf.process.signals import StopRequest
from ttf.rundir.flight_record import FlightRecorder
from ttf.rundir.request import Change, FromTrainer, History, ToTrainer, TrainRequest
from ttf.rundir.typed_json import dataclass_from


def _identity(fd: int) -> tuple[int, int] | None:
    try:
        found = os.fstat(fd)
    except OSError:
        return None
    return found.st_dev, found.st_ino


class LeaveAsked(Exception):
    """Raised at a step boundary, after a checkpoint: the supervisor will start a new process."""


class Link:
    """The trainer without a supervisor: sends and receives nothing."""

    def __init__(self) -> None:
        self.flight = FlightRecorder(None)
        self.stop = StopRequest()
        # None: no supervisor; the run keeps its own clock and peak.
        self.history: History | None = None
        self.overlay: Mapping[str, Change] = {}
        # Environment variables that were kept from this process.
        self.left_out: Mapping[str, str] = {}
        self.command: tuple[str, ...] = ()  # What the user typed; empty if unknown.
        # An end is agreed on with other processes between two steps, never in the middle of long work.
        self.together = False
        self.save_every = 0  # See `TrainRequest.save_every`; changes while the run goes on.
        self.shed_asked = threading.Event()
        self.leave_asked = threading.Event()
        self._notes: queue.SimpleQueue[str] = queue.SimpleQueue()

    def notes(self) -> Iterator[str]:
        """Messages of the supervisor since the last call."""
        while not self._notes.empty():
            yield self._notes.get()

    def check_stop(self) -> None:
        """Call it during long work between two steps. A sign of life; raises LeaveAsked or
        StopAsked if the run is to end."""
        self.flight.beat()
        if self.together:
            return
        if self.leave_asked.is_set():
            raise LeaveAsked
        self.stop.raise_if_asked()

    @property
    def supervised(self) -> bool:
        return self.history is not None

    def tell(self, message: FromTrainer) -> None:
        """May be called from any thread."""


class SupervisedLink(Link):
    """Sends messages on a pipe, and receives requests on the life line."""

    def __init__(self, life: int, results: int) -> None:
        """Waits for the request, which is the first message."""
        super().__init__()
        self._results = results
        self._lock = threading.Lock()
        self._requests: queue.SimpleQueue[TrainRequest] = queue.SimpleQueue()
        conversation.follow(life, self._handle_request)
        self.request = self._requests.get()
        self._pipes = {fd: _identity(fd) for fd in (life, results)}
        self.flight = FlightRecorder(Path(self.request.run_dir) / "flight.bin")
        self.history = self.request.history
        self.overlay = self.request.overlay
        self.save_every = self.request.save_every

    def tell(self, message: FromTrainer) -> None:
        with self._lock:
            conversation.tell(self._results, message)

    def plugin_at_work(self, work: PluginWork | None) -> None:
        """Notes it in the flight record. The plugin noted before may have closed our pipes: then
        the record goes on naming it, and the supervisor hears of it by the exit code."""
        if any(_identity(fd) != was for fd, was in self._pipes.items()):
            lifeline.leave_without_pipes()
        self.flight.plugin_at_work(work)

    def _handle_request(self, received: Mapping[str, Any]) -> None:
        # In the life line's thread; requests take effect at the next step boundary.
        message = cast("ToTrainer", received)
        if "request" in message:
            self._requests.put(dataclass_from(TrainRequest, message["request"]))
        elif "stop" in message:
            self.stop.ask(message["stop"])
        elif "shed" in message:
            self.shed_asked.set()
        elif "leave" in message:
            self.leave_asked.set()
        elif "say" in message:
            self._notes.put(message["say"])
        elif "save_every" in message:
            self.save_every = message["save_every"]
