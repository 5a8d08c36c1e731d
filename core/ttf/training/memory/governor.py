"""Keeps a training within its limit in mid-run: reads, asks `machine.memory.govern`, and obeys.

A thread looks four times a second, however long a step takes. It sets the levers that may be set at any
time; the others, the lines of the log and the messages wait for the next step boundary. Every decision
is a line of metrics.jsonl (type "memory"), and a second one says what it did to the memory that is held.
"""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Self

from ttf.machine.memory.allocator import give_back
from ttf.machine.memory.govern import Decision, Look, Size, State, Use, govern
from ttf.machine.memory.limits import Limit
from ttf.machine.memory.pressure import StallMeter
from ttf.machine.memory.run_limit import AUTO, run_limit
from ttf.machine.memory.watch import LOOK_AGAIN_S, Gauge, held_by
from ttf.process import platform
from ttf.rundir.memory_facts import MemorySummary
from ttf.text.numbers import size
from ttf.training.memory.levers import Lever, of_idle_miner, of_rows_ahead, of_tables

if TYPE_CHECKING:
    from ttf.training.mined_negatives import MinedNegatives
    from ttf.training.session import Session

EVERY_S: Final = 0.25
# When a decision has had its effect: levers give memory back within some steps.
EFFECT_AFTER_S: Final = 2.0
# Blocks of steps fall into other holes of the heap each time, and freed pages stay touched: 3 MB more in
# 1,000 steps. Giving them back takes 1 to 8 ms.
GIVE_BACK_EVERY_S: Final = 20.0
_SAY_EVERY_S: Final = 60.0
_FLOAT: Final = 4

Write = Callable[[Mapping[str, Any]], None]


@dataclass(kw_only=True)
class Governed:
    """Of all processes of a run; part of its checkpoints."""

    shrunk: int = 0
    grown: int = 0
    freed_bytes: int = 0
    pressure: str = ""  # where stalls are read; empty: this system does not tell

    def facts(self, limit: Limit) -> MemorySummary:
        return {
            "limit_mb": limit.bytes / 1e6,
            "source": limit.source,
            "pressure": self.pressure or None,
            "shrunk": self.shrunk,
            "grown": self.grown,
            "freed_mb": self.freed_bytes / 1e6,
        }


@dataclass(kw_only=True)
class Governor:
    """Use it with `with`; call `settle` from the main thread at each step boundary."""

    setting: int | str  # memory.limit
    levers: Sequence[Lever]
    held: Callable[[], int]  # anonymous and shared memory of all processes of the run
    write: Write
    say: Callable[[str], None]
    counts: Governed
    gauge: Gauge = field(default_factory=lambda: Gauge(os.getpid()))
    stalls: StallMeter = field(default_factory=StallMeter)
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self._state = State()
        self._look_again_at = self._say_at = 0.0
        self._gave_back_at = self.clock()
        self._own: Use | None = None
        self._limit = (0, "")
        self._effect: tuple[float, int] | None = None
        self._step = 0
        self._busy = threading.Lock()  # of looks, which the thread and `settle` both do
        self._due: dict[str, int] = {}
        self._lines: queue.SimpleQueue[Mapping[str, Any]] = queue.SimpleQueue()
        self._words: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="ttf-governor", daemon=True)
        self.counts.pressure = self.stalls.source

    def __enter__(self) -> Self:
        self.begin()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()
        self._pass_on()

    def _watch(self) -> None:
        while not self._stopping.wait(EVERY_S):
            try:
                self.look()
            except ProcessLookupError:  # in the last moment of a process
                return

    def begin(self) -> None:
        """Says once what cannot be seen here."""
        if platform.LINUX and not self.stalls.source and self.setting != AUTO:
            self.say(
                "This system does not tell how long programs wait for memory (PSI): memory.limit is "
                "kept by what is held alone."
            )

    def settle(self, step: int) -> None:
        """Between two steps: sets what may only be set here, and passes on what was decided."""
        self._step = step
        with self._busy:
            due, self._due = self._due, {}
        for lever in self.levers:
            if lever.name in due:
                lever.set(due[lever.name])
        now = self.clock()
        if now - self._gave_back_at >= GIVE_BACK_EVERY_S:
            self._gave_back_at = now
            give_back()
        self._pass_on()

    def _pass_on(self) -> None:
        while not self._lines.empty():
            self.write(self._lines.get())
        while not self._words.empty():
            self.say(self._words.get())

    def look(self) -> None:
        """One look and what follows from it. From any thread."""
        with self._busy:
            now = self.clock()
            look = Look(
                now=now,
                uses=self._uses(now),
                stalled=self.stalls.read(),
                stalls_of_machine=self.stalls.of_machine,
            )
            self._note_limit(look)
            self._note_effect(look)
            sizes = {lever.name: lever.size() for lever in self.levers}
            self._state, decision = govern(self._state, look, tuple(sizes.values()))
            if decision is not None:
                self._obey(decision, look, sizes)

    def _uses(self, now: float) -> tuple[Use, ...]:
        found = [Use(held=r.held, limit=r.limit, source=r.source) for r in self.gauge.readings()]
        if self.setting != AUTO:
            if now >= self._look_again_at:  # a control group's limit may have changed
                self._limit = run_limit(self.setting)
                self._look_again_at = now + LOOK_AGAIN_S
            limit, source = self._limit
            found.append(Use(held=self.held(), limit=limit, source=source))
        return tuple(found)

    def _obey(self, decision: Decision, look: Look, before: Mapping[str, Size]) -> None:
        changes = []
        levers = {lever.name: lever for lever in self.levers}
        for name, target in decision.sizes:
            if levers[name].between_steps:
                self._due[name] = target
            else:
                levers[name].set(target)
                target = levers[name].now()  # in whole units
            changes.append({"name": name, "before": before[name].now, "after": target})
        if decision.act == "shrink":
            give_back()
            self.counts.shrunk += 1
        elif decision.act == "grow":
            self.counts.grown += 1
        self._write(decision.act, look, levers=changes, why=decision.why)
        if changes:
            self._effect = (look.now + EFFECT_AFTER_S, look.nearest.held)
        self._tell(decision, changes, look.now)

    def _note_effect(self, look: Look) -> None:
        if self._effect is None or look.now < self._effect[0]:
            return
        before, self._effect = self._effect[1], None
        self.counts.freed_bytes += max(0, before - look.nearest.held)
        self._write("effect", look, held_before=before)

    def _note_limit(self, look: Look) -> None:
        # Of those that somebody set; what is free of the machine is no limit that changes.
        use = look.uses[-1] if self.setting != AUTO else look.nearest
        before, self._own = self._own, use
        if before is None or before.limit == use.limit:
            return
        if self.setting != AUTO or before.source == use.source:
            self._write("limit", look, limit_before=before.limit)
            self._words.put(f"The memory limit changed: {size(before.limit)} -> {size(use.limit)}.")

    def _write(self, what: str, look: Look, **more: Any) -> None:
        use = look.nearest
        self._lines.put({
            "type": "memory", "time": round(time.time(), 3), "step": self._step, "what": what,
            "held": use.held, "limit": use.limit, "source": use.source, "stalled": look.stalled,
            **more,
        })  # fmt: skip

    def _tell(self, decision: Decision, changes: Sequence[Mapping[str, Any]], now: float) -> None:
        # Lines on the screen are for people: not each of a dozen small changes.
        if now < self._say_at and decision.act != "short":
            return
        self._say_at = now + _SAY_EVERY_S
        if decision.act == "short":
            self._words.put(
                f"Memory is short ({decision.why}), and no cache of this run is left to make smaller."
            )
            return
        done = ", ".join(f"{c['name']} {size(c['before'])} -> {size(c['after'])}" for c in changes)
        verb = "smaller" if decision.act == "shrink" else "larger again"
        self._words.put(
            f"Memory is at {decision.why}: caches are {verb} ({done}). No number changes."
        )


def governor_of(
    session: Session, mined: MinedNegatives, counts: Governed, held: Callable[[], int], write: Write
) -> Governor:
    """The governor of an open run."""
    setting = session.config.memory.limit
    shape = session.decided.specs.query.shape
    rows = session.decided.plan.micro_batch * shape.length * shape.in_dim
    levers = [of_rows_ahead(session.ahead, rows * _FLOAT)]
    if session.parts.tables:
        levers.append(of_tables(session.parts.tables))
    if setting != AUTO:  # else the supervisor ends it, at 90%
        levers.append(of_idle_miner(lambda: held_by(mined.worker), mined.release))
    return Governor(
        setting=setting,
        levers=levers,
        held=held,
        write=write,
        say=session.reporter.note,
        counts=counts,
    )
