"""One trainer process from start to end; its messages and behaviour become events.

Owns the child process, its pipes, flight record, memory curve and stderr. Does not decide anything.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

from ttf.incidents.death import Death, Finding, KilledByUs, ProcessEnd
from ttf.incidents.gather import Witness
from ttf.incidents.inputs import look_at
from ttf.incidents.remedies import remedies_for, without_device
from ttf.machine.memory._linux import descendants
from ttf.machine.memory.run_limit import AUTO, run_limit
from ttf.machine.memory.tree import Device, Place
from ttf.machine.memory.watch import Gauge, MemoryCurve, Reading
from ttf.process.activity import ticks
from ttf.process.child import Child
from ttf.process.conversation import GRACE_S, Conversation, wait
from ttf.process.error_document import ErrorDocument
from ttf.process.meanwhile import what_they_did
from ttf.process.signals import Signals
from ttf.rundir.confined import append_inside
from ttf.rundir.flight_record import FlightReader
from ttf.rundir.removing import remove_if_there
from ttf.rundir.request import FromTrainer, TrainerEnd, TrainRequest
from ttf.rundir.run_folder import RunFolder
from ttf.supervise.events import (
    MENDABLE,
    Beat,
    Checkpointed,
    Configured,
    Died,
    Event,
    Life,
    Limited,
    Pressure,
    Settings,
    Suspended,
    now,
)
from ttf.supervise.written import lived, written
from ttf.text.numbers import moment, size

if TYPE_CHECKING:
    from ttf.incidents.backtrace import NativeStacks

LOOK_EVERY_S: Final = 0.25
NOTES_EVERY_S: Final = 1.0
# A process that was killed is gone sooner, unless it waits for a disk or a device: then no signal ends it.
_HELD_S: Final = 2.0
# A wait that took so much longer: the machine slept, or this process was stopped.
LATE_S: Final = 2.0
_QUIET_S: Final = 2.0  # a shorter silence of the main thread says nothing about it
_TRAINER: Final = ("-m", "ttf.training.launch")
# The class of the error that says so.
MISTRUSTED: Final = "DeviceMistrusted"
_SECTION: Final = ("hang_timeout_s", "max_restarts", "remedies")


def suspended(
    began: float, limit: float, display_is_blocked: Callable[[], bool]
) -> Iterator[Suspended]:
    """After a wait that was to end at `limit`: it took too long, or nobody reads the display."""
    late = now() - max(began, limit)
    if late > LATE_S:
        yield Suspended(now=now(), seconds=late)
    elif display_is_blocked():
        yield Suspended(now=now(), seconds=now() - began)


def _settings(section: Mapping[str, Any]) -> Settings:
    timeout = section["hang_timeout_s"]
    return Settings(
        max_restarts=section["max_restarts"],
        hang_timeout_s=None if timeout == "auto" else float(timeout),
        remedies=section["remedies"],
    )


def _with_trainer_remedy(finding: Finding, error: ErrorDocument | None) -> Finding:
    # A trainer that found wrong results of its device can go on without it.
    if error is None or error["class"] != MISTRUSTED:
        return finding
    return replace(
        finding, certain=True, at_once=True, ends_with=None, remedies=(without_device(),)
    )


class RunningTrainer:
    def __init__(
        self,
        request: TrainRequest,
        folder: RunFolder,
        signals: Signals,
        *,
        display: int | None,
        whole_tree: bool,
        again: bool,
        log: Callable[[str], None],
    ) -> None:
        """`whole_tree`: this process exists only for the run and its memory counts. `again`: an
        earlier trainer of this process died. `log` gets the lines of its progress."""
        self._folder = folder
        self._log = log
        self._display = display
        self._signals = signals
        remove_if_there(folder.flight, folder.path, "flight")
        self.flight = FlightReader(folder.flight)
        self.child = Child(
            (*_TRAINER, str(-1 if display is None else display)),
            passed=() if display is None else (display,),
            again=again,
        )
        self.conversation = Conversation(self.child, {"request": asdict(request)})
        self.witness = Witness("trainer", self.child.pid, stacks=folder.stacks)
        root = os.getpid() if whole_tree else self.child.pid
        self.curve = MemoryCurve(root, folder.memory, place=self._place)
        self._gauge = Gauge(self.child.pid)
        self.tightest: Reading | None = None  # of all limits, when it was nearest to one
        self.next_look = self._next_notes = 0.0
        self._seen = self.flight.read()
        self._quiet = now(), ticks(self.child.pid) or 0  # at its last sign of life
        self._meanwhile = ""
        self.flat: Mapping[str, Any] = {}
        self.end: TrainerEnd | None = None  # its final record
        self.killed: tuple[KilledByUs, str] = ("", "")
        self._killed_at: float | None = None
        self._native: NativeStacks | None = None

    def _place(self) -> Place:
        flight = self.flight.read()
        return Place(flight.step, flight.phase, Device(flight.allocated, flight.cached))

    # --- waiting ----------------------------------------------------------------------------

    def wait(self, until: float | None) -> list[Event]:
        """Waits until something happens, at most until `until`; returns the events."""
        limit = self.next_look if until is None else min(until, self.next_look)
        began = now()
        wait([self.conversation], limit - began, self._signals)
        return [*suspended(began, limit, self.display_is_blocked), *self.events()]

    def events(self) -> list[Event]:
        """What happened since the last call."""
        messages = self.conversation.take()
        return [*self._parsed(messages), *self._beat(), *self._look()]

    def display_is_blocked(self) -> bool:
        # A held terminal (Ctrl-S), or a pager that shows its first page: the trainer waits until
        # somebody reads on. This is not a hang.
        if self._display is None:
            return False
        poll = select.poll()
        poll.register(self._display, select.POLLOUT)
        return not poll.poll(0)

    @property
    def over(self) -> bool:
        return not self.child.alive() or bool(self.held)

    @property
    def held(self) -> tuple[subprocess.Popen[bytes], ...]:
        """The process, if it was killed and the kernel does not let it go."""
        if self._killed_at is None or now() - self._killed_at < _HELD_S or not self.child.alive():
            return ()
        return (self.child.process,)

    @property
    def pids(self) -> tuple[int, ...]:
        """Of the trainers, which this process waits for."""
        return (self.child.pid,)

    @property
    def conclusive(self) -> bool:
        """Its final record is an error that a restart would meet again."""
        error = (self.end or {}).get("error")
        return error is not None and error["known"] and error["class"] not in MENDABLE

    @property
    def garbage(self) -> str:
        """Why the messages cannot be read any more; '' if they can."""
        return self.conversation.garbage

    def _parsed(self, messages: list[dict[str, Any]]) -> Iterator[Event]:
        for message in messages:
            try:
                event = self._event(cast("FromTrainer", message))
            except (LookupError, TypeError, ValueError) as error:
                text = f"a message is not valid ({type(error).__name__}: {error})"
                self.conversation.garbage = text
                return
            if event is not None:
                yield event

    def _event(self, message: FromTrainer) -> Event | None:
        if "log" in message:
            self._log(str(message["log"]))
            return None
        if "supervise" in message:
            if message["supervise"].get("core"):
                self._allow_core()
            return Limited(now=now(), settings=_settings(message["supervise"]))
        if "configured" in message:
            return self._configured(message)
        if "checkpointed" in message:
            return Checkpointed(
                now=now(),
                step=int(message["checkpointed"]),
                cost_s=float(message["cost_s"]),
                lived=lived(self.flight.read()) or Life(),
            )
        self.end = message["end"]
        return None

    def _allow_core(self) -> None:
        from ttf.incidents.backtrace import NativeStacks  # only for those who ask for cores

        again = ("-m", "ttf", "train", str(self._folder.config), "--in-process")
        self._native = NativeStacks((sys.executable, *again))
        with contextlib.suppress(ProcessLookupError):
            self._native.allow(self.child.pid)

    def _configured(self, message: FromTrainer) -> Configured:
        self.flat = message["configured"]
        self.witness.inputs = look_at(message["inputs"])
        self.curve.limited_pid = self.child.pid
        self.curve.limit_of = partial(run_limit, self.flat["memory.limit"], pid=self.child.pid)
        settings = _settings({key: self.flat[f"supervise.{key}"] for key in _SECTION})
        remedies = remedies_for("memory-limit", self.flat, phase=self._seen.phase)
        return Configured(now=now(), settings=settings, flat=self.flat, memory_remedies=remedies)

    def _beat(self) -> Iterator[Event]:
        flight = self.flight.read()
        if flight == self._seen:
            return
        self._seen = flight
        self._quiet = now(), ticks(self.child.pid) or 0
        yield Beat(
            now=now(),
            at=flight.monotonic_s,
            step=flight.step,
            phase=flight.phase,
            saving_since=flight.saving_since_s,
            plugin=flight.plugin,
        )

    def _look(self) -> Iterator[Event]:
        if now() < self.next_look:
            return
        self.next_look = now() + LOOK_EVERY_S
        with contextlib.suppress(ProcessLookupError):  # `over` will tell
            self.curve.look()
            if now() >= self._next_notes:
                self.witness.look()
                if self._native is not None:
                    self._native.look([self.child.pid, *descendants(self.child.pid)])
                self._next_notes = now() + NOTES_EVERY_S
            reading = max(self._gauge.read(), self._own_limit(), key=lambda found: found.share)
            self.tightest = max(self.tightest or reading, reading, key=lambda found: found.share)
            yield Pressure(now=now(), share=reading.share, text=reading.text)
        self.flight.tell_memory(self.curve.held_bytes, self.curve.peak_bytes)

    def _own_limit(self) -> Reading:
        """The use of memory.limit by all processes of the run; no share while it is unknown, or
        where the gauge measures it."""
        limit, held = self.curve.limit, self.curve.held_bytes
        share = held / limit.bytes if self.flat.get("memory.limit", AUTO) != AUTO else 0.0
        text = f"{size(held)} of {size(limit.bytes)}, {limit.source}"
        return Reading(share, held, limit.bytes, limit.source, text)

    # --- ending -----------------------------------------------------------------------------

    def dump_stacks(self) -> None:
        self.witness.look()
        since, before = self._quiet
        quiet_s = now() - since
        if quiet_s >= _QUIET_S:
            used = (ticks(self.child.pid) or before) - before
            self._meanwhile = f"; {what_they_did([self.child.pid], used, quiet_s)}"
        if self._folder.stacks.exists():  # before that it has no handler, and would die of it
            self.conversation.dump_stacks(self._folder.stacks)

    def kill(self, why: KilledByUs, text: str) -> None:
        self.killed = (why, f"{text}{self._meanwhile}" if why == "hang" else text)
        self._killed_at = self._killed_at or now()
        self.child.kill()

    def stop_tree(self) -> None:
        """Stops it and what it started until `continue_tree`."""
        self.child.stop_tree()

    def continue_tree(self) -> None:
        self.child.continue_tree()

    def finish(self) -> int:
        """Reaps the process, reads its last messages, ends its descendants. Returns the return
        code."""
        self.witness.look_last()
        code = -signal.SIGKILL if self.held else self.child.end(GRACE_S)
        # Once: a process that escaped the kill may hold the pipes open.
        for _ in self._parsed(self.conversation.take()):
            pass  # only the final record still matters
        self._write_stderr()
        return code

    def death(self, code: int, say: Callable[[str], None]) -> tuple[Finding, Died]:
        """Explains its death and writes the incident; `say` gets why that was not possible."""
        death, finding = self.explained(code)
        return finding, written(self._folder, death, finding, say)

    def explained(self, code: int) -> tuple[Death, Finding]:
        from ttf.incidents.classify import classify

        death = self._evidence(code)
        return death, _with_trainer_remedy(classify(death), (self.end or {}).get("error"))

    def _evidence(self, code: int) -> Death:
        end = ProcessEnd(
            returncode=code,
            killed=self.killed,
            stderr=self.conversation.stderr.data(),
            flight=self.flight.read(),
            error=(self.end or {}).get("error"),
            finished=self.end is not None,
            memory=self.curve.points,
            limit_source=self.curve.limit.source,
            folders=(self._folder.path,),
            settings=self.flat,
        )
        death = self.witness.death(end)
        return death if self._native is None else replace(death, backtrace=self._native.of(death))

    def _write_stderr(self) -> None:
        # Appends. An error of the disk does not matter here.
        data = self.conversation.stderr.data()
        if not data:
            return
        from ttf.text.secrets import Secrets

        stamp = moment(time.time())
        head = f"--- trainer, process {self.child.pid}, until {stamp}\n".encode()
        kept, folder = self._folder.stderr, self._folder.path
        with contextlib.suppress(OSError), append_inside(kept, folder) as file:
            file.write(head + Secrets().bytes(data) + (b"" if data.endswith(b"\n") else b"\n"))

    def send(self, message: Mapping[str, Any]) -> bool:
        """Returns False if the trainer does not take the message."""
        return self.conversation.send(message)

    def close(self) -> None:
        """Ends what is left of the process. May be called twice."""
        self.child.close()
        if self._native is not None:
            self._native.close()
        self.witness.close()
        self.flight.close()
