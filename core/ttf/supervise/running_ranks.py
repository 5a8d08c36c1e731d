"""The trainers of one node as one thing, with the face of a single `RunningTrainer`.

They live and end together: when one ends, the others notice it themselves within a moment, or are
ended. Then the first cause is looked for among all ends.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from ttf.errors import PeerLost
from ttf.incidents.death import Death, Evidence, Finding, KilledByUs
from ttf.machine.memory.watch import Reading
from ttf.process.conversation import wait
from ttf.process.lifeline import is_stopped
from ttf.process.signals import Signals
from ttf.rundir.rank_folders import add_documents, documents_of, rank_folder
from ttf.rundir.request import TrainerEnd, TrainRequest
from ttf.rundir.run_folder import RunFolder, RunLog
from ttf.rundir.world_place import WorldPlace
from ttf.supervise.events import Beat, Checkpointed, Configured, Died, Event, Limited, Pressure, now
from ttf.supervise.rank_ends import CONSEQUENCES, RankEnd, first_cause
from ttf.supervise.running_trainer import RunningTrainer, suspended
from ttf.supervise.written import written

if TYPE_CHECKING:
    from _typeshed import HasFileno

# gloo tells of a closed connection within 50 ms; who computes hears of it at the next exchange.
LEAVE_S: Final = 1.0
LEAVE_EXCHANGE_S: Final = 4.0  # More, on a busy machine, before one is blamed that says nothing.
# After the last step, ranks write models and summaries of different sizes.
FINISH_S: Final = 60.0
_LOOK_EVERY_S: Final = 0.05  # At those that are about to go.
_TIMED_OUT: Final = re.compile(r"(?i)\btimed? ?out\b")


class RunningRanks:
    """Owns a `RunningTrainer` for each rank of this node, and their folders."""

    def __init__(
        self,
        request: TrainRequest,
        folder: RunFolder,
        signals: Signals,
        places: Sequence[WorldPlace],
        *,
        display: int | None,
        whole_tree: bool,
        again: bool,
        log: Callable[[str], None],
    ) -> None:
        """Arguments as of `RunningTrainer`; `places` are those of this node, in their order."""
        self._folder, self._signals, self._places = folder, signals, tuple(places)
        self._folders: list[RunFolder] = []
        self._logs: list[RunLog] = []
        self._trainers: list[RunningTrainer] = []
        self._display_is_blocked: Callable[[], bool] = lambda: False
        self._over_at: dict[int, float] = {}  # By number among `_trainers`.
        self._ends_at: float | None = None  # Then the rest is ended.
        self._late = False  # Others waited in vain for somebody.
        self._codes: list[int] = []
        self._ends: list[RankEnd] = []
        self._explained: dict[int, tuple[Death, Finding]] = {}
        self._pressure: dict[int, Pressure] = {}
        try:
            for place in self._places:
                first = place.local_rank == 0
                self._trainers.append(
                    RunningTrainer(
                        replace(request, world=place, run_dir=str(self._own(place, request).path)),
                        self._folders[-1],
                        signals,
                        display=display if first else None,
                        whole_tree=whole_tree and first,
                        again=again,
                        log=log if first else self._logs[-1].write,
                    )
                )
        except BaseException:
            self.close()
            raise
        self._display_is_blocked = self._trainers[0].display_is_blocked

    def _own(self, place: WorldPlace, request: TrainRequest) -> RunFolder:
        folder = rank_folder(self._folder, place.local_rank)
        if place.local_rank:
            folder.claim()
            if request.resume:
                add_documents(folder, documents_of(self._folder))
            self._logs.append(RunLog(folder, resume=request.resume))
        self._folders.append(folder)
        return folder

    # --- waiting ----------------------------------------------------------------------------

    def wait(self, until: float | None, others: Sequence[HasFileno] = ()) -> list[Event]:
        """`others` end the wait as well."""
        living = self._living()
        began = now()
        times = [t.next_look for _, t in living] + [t for t in (until,) if t]
        if self._ends_at is not None:
            times.append(max(self._ends_at, began + _LOOK_EVERY_S))
        limit = min(times, default=began)
        wait([t.conversation for _, t in living], limit - began, self._signals, *others)
        events: list[Event] = [*suspended(began, limit, self._display_is_blocked)]
        for number, trainer in living:
            events += self._passed_on(number, trainer.events())
        self._notice()
        return events

    def _living(self) -> list[tuple[int, RunningTrainer]]:
        return [(n, t) for n, t in enumerate(self._trainers) if n not in self._over_at]

    def _passed_on(self, number: int, events: list[Event]) -> Iterator[Event]:
        """One trainer's settings and checkpoints stand for all; of signs of life, that of the rank
        whose last one is oldest; of memory, the largest share."""
        for event in events:
            match event:
                case Limited() | Configured() | Checkpointed():
                    if number == 0:
                        yield event
                case Beat():
                    yield from self._oldest_beat(event.now)
                case Pressure():
                    self._pressure[number] = event
                    yield max(self._pressure.values(), key=lambda found: found.share)
                case _:
                    yield event

    def _oldest_beat(self, at: float) -> Iterator[Beat]:
        living = self._living()
        if living:
            number = self._laggard()
            flight = self._trainers[number].flight.read()
            yield Beat(
                now=at,
                at=flight.monotonic_s,
                step=flight.step,
                phase=flight.phase,
                saving_since=flight.saving_since_s,
                plugin=flight.plugin,
            )

    def _laggard(self) -> int:
        living = self._living() or list(enumerate(self._trainers))
        return min(living, key=lambda each: each[1].flight.read().monotonic_s)[0]

    def _notice(self) -> None:
        for number, trainer in self._living():
            if trainer.over:
                trainer.events()  # its last messages
                self._over_at[number] = now()
                grace = FINISH_S if _ended_well(trainer) else LEAVE_S
                self._late = self._late or _waited_in_vain(trainer)
                self.end_soon(grace)
        if self._ends_at is not None and now() >= self._ends_at:
            self._end_rest()

    def end_soon(self, grace_s: float = LEAVE_S, *, late: bool = False) -> None:
        """Ends what does not leave by itself. `late`: others waited in vain for a rank, which may be
        one of these."""
        self._late = self._late or late
        at = now() + grace_s
        self._ends_at = at if self._ends_at is None else min(at, self._ends_at)

    def _end_rest(self) -> None:
        rest = [number for number, trainer in self._living() if not trainer.killed[0]]
        blamed = self._blamed(rest)
        if blamed is None:
            return
        for number in rest:
            if number in blamed:
                self._end_late(number)
            else:
                self._trainers[number].kill("stop", "another rank of the run ended")

    def _blamed(self, rest: Sequence[int]) -> Collection[int] | None:
        """Those for which others waited in vain; None: that cannot be told yet. Who waits in an exchange
        itself hears of the end of the others, and leaves; unless it is stopped there."""
        if not self._late or not rest or any(map(self._is_cause, self._over_at)):
            return ()
        busy = [n for n in rest if self._trainers[n].flight.read().phase != "exchange"]
        found = busy or [n for n in rest if is_stopped(self._trainers[n].child.pid)]
        if found or now() >= (self._ends_at or 0.0) + LEAVE_EXCHANGE_S:
            return found or [self._laggard()]
        return None

    def _end_late(self, number: int) -> None:
        trainer = self._trainers[number]
        flight = trainer.flight.read()
        trainer.dump_stacks()
        silent_s = now() - flight.monotonic_s
        limit = self._places[number].exchange_timeout_s
        why: KilledByUs = "hang" if silent_s >= limit / 2 else "straggler"
        trainer.kill(
            why,
            f"the other ranks waited {limit:g} s for it in vain; it was in {flight.phase} at "
            f"step {flight.step}, its last sign of life {silent_s:.1f} s ago",
        )

    def _is_cause(self, number: int) -> bool:
        trainer = self._trainers[number]
        error = (trainer.end or {}).get("error")
        return not _ended_well(trainer) and (error is None or error["class"] != "PeerLost")

    # --- the face of a trainer ----------------------------------------------------------------

    @property
    def over(self) -> bool:
        return len(self._over_at) == len(self._trainers)

    @property
    def pids(self) -> tuple[int, ...]:
        return tuple(trainer.child.pid for trainer in self._trainers)

    @property
    def held(self) -> tuple[subprocess.Popen[bytes], ...]:
        return tuple(process for trainer in self._trainers for process in trainer.held)

    @property
    def garbage(self) -> str:
        return next((t.garbage for t in self._trainers if t.garbage), "")

    @property
    def tightest(self) -> Reading | None:
        found = [t.tightest for t in self._trainers if t.tightest is not None]
        return max(found, key=lambda reading: reading.share, default=None)

    @property
    def killed(self) -> tuple[KilledByUs, str]:
        return next((t.killed for t in self._trainers if t.killed[0]), ("", ""))

    @killed.setter
    def killed(self, why: tuple[KilledByUs, str]) -> None:
        self._trainers[0].killed = why

    def send(self, message: Mapping[str, Any]) -> bool:
        if "say" in message:
            return self._trainers[0].send(message)
        taken = [trainer.send(message) for _, trainer in self._living()]
        return all(taken)

    def dump_stacks(self) -> None:
        for _, trainer in self._living():
            trainer.dump_stacks()

    def kill(self, why: KilledByUs, text: str) -> None:
        """Ends all of them. The one that is meant is the one that was silent longest, or sent what
        cannot be read."""
        broken = [n for n, t in enumerate(self._trainers) if t.garbage]
        meant = broken[0] if why == "garbage" and broken else self._laggard()
        for number, trainer in self._living():
            if number == meant or why == "stop":
                trainer.kill(why, text)
            else:
                trainer.kill("stop", "another rank of the run was ended")

    def stop_tree(self) -> None:
        for trainer in self._trainers:
            trainer.stop_tree()

    def continue_tree(self) -> None:
        for trainer in self._trainers:
            trainer.continue_tree()

    # --- their end ------------------------------------------------------------------------------

    def finish(self) -> int:
        """Reaps all, and finds the cause among them; returns its code."""
        if not self._codes:
            self._codes = [trainer.finish() for trainer in self._trainers]
            self._ends = [self._end_of(number) for number in range(len(self._trainers))]
        return self._codes[self._chosen]

    def _end_of(self, number: int) -> RankEnd:
        trainer, place = self._trainers[number], self._places[number]
        flight = trainer.flight.read()
        end = RankEnd(
            rank=place.rank,
            host=place.host,
            kind="finished",
            step=flight.step,
            phase=flight.phase,
            at=self._over_at.get(number, now()),
        )
        record = trainer.end or {}
        if "summary" in record:
            return end
        if "left" in record:
            return replace(end, kind="left")
        if trainer.killed[0] == "stop":
            return replace(end, kind="ended")
        if trainer.conclusive:
            return replace(end, kind="told", name=record["error"]["class"])
        _, finding = self._explanation(number)
        lost = finding.name in CONSEQUENCES and finding.ends_with is None
        return replace(end, kind="lost" if lost else "died", name=finding.name)

    def _explanation(self, number: int) -> tuple[Death, Finding]:
        if number not in self._explained:
            place = self._places[number]
            death, finding = self._trainers[number].explained(self._codes[number])
            death = replace(death, rank=place.rank, host=place.host)
            self._explained[number] = death, finding
        return self._explained[number]

    @property
    def flat(self) -> Mapping[str, Any]:
        """The configuration by dotted key; empty if no trainer has told it."""
        return self._trainers[0].flat

    @property
    def ends(self) -> tuple[RankEnd, ...]:
        """Of all ranks of this node; after `finish`."""
        return tuple(self._ends)

    @property
    def _chosen(self) -> int:
        cause = first_cause(self._ends)
        return 0 if cause is None else self._ends.index(cause)

    @property
    def end(self) -> TrainerEnd | None:
        """The final record of the cause; of the first trainer if there is none."""
        return self._trainers[self._chosen].end if self._ends else None

    @property
    def conclusive(self) -> bool:
        return bool(self._ends) and self._ends[self._chosen].kind == "told"

    @property
    def failed(self) -> bool:
        """Something is to be explained; after `finish`."""
        return first_cause(self._ends) is not None

    @property
    def late(self) -> bool:
        """Somebody was waited for in vain."""
        return self._late

    def told(self) -> tuple[Death, Finding]:
        """What is known about the cause."""
        return self._explanation(self._chosen)

    def death(self, code: int, say: Callable[[str], None]) -> tuple[Finding, Died]:
        death, finding = self.told()
        others = [end for number, end in enumerate(self._ends) if number != self._chosen]
        finding = with_others(finding, death, others)
        return finding, written(self._folder, death, finding, say)

    def close(self) -> None:
        for trainer in self._trainers:
            trainer.close()
        left = PeerLost("with the other ranks of this attempt") if self.failed else None
        for log in self._logs:
            log.__exit__(None, left, None)
        for folder in self._folders[1:]:
            folder.close()
        self._logs, self._folders = [], self._folders[:1]


def with_others(finding: Finding, death: Death, others: Sequence[RankEnd]) -> Finding:
    """Names the rank in the explanation, and the others in the evidence."""
    about = ""
    if death.rank is not None:
        name = f"rank {death.rank} ({death.host})" if death.host else f"rank {death.rank}"
        about = f"This is about {name}, the first to end. "
    lines = [
        Evidence(source=f"rank {end.rank}" + (f" ({end.host})" if end.host else ""), text=end.text)
        for end in others
    ]
    return replace(
        finding,
        explanation=f"{about}{finding.explanation}",
        evidence=(*finding.evidence, *lines),
    )


def _ended_well(trainer: RunningTrainer) -> bool:
    """Together with all others: the run is over, or somebody asked for its end."""
    record = trainer.end or {}
    error = record.get("error")
    asked = error is not None and error["class"] in ("Stopped", "GateNotMet")
    return "summary" in record or "left" in record or asked


def _waited_in_vain(trainer: RunningTrainer) -> bool:
    error = (trainer.end or {}).get("error")
    if error is None or error["class"] != "PeerLost":
        return False
    return _TIMED_OUT.search(error["message"]) is not None
