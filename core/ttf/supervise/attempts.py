"""What a supervisor starts next, and with whom: alone, or together with other nodes."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from ttf.errors import Told
from ttf.incidents.death import Finding, KilledByUs
from ttf.machine.memory.watch import Reading
from ttf.process.signals import Signals, wait_for
from ttf.rundir.request import Change, History, TrainerEnd, TrainRequest
from ttf.rundir.run_folder import RunFolder
from ttf.rundir.world_place import WorldPlace
from ttf.supervise.decide import decide
from ttf.supervise.events import Died, Event, Spawn
from ttf.supervise.restart_rules import Decision
from ttf.supervise.state import State

if TYPE_CHECKING:
    from collections.abc import Callable

    from ttf.supervise.nodes.scale import Scale
    from ttf.supervise.running_ranks import RunningRanks


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """One life of all trainers."""

    places: tuple[WorldPlace, ...] = ()  # Of the trainers of this node; empty: it is the only one.
    overlay: Mapping[str, Change] = field(default_factory=dict)
    save_every: int = 0
    history: History = field(default_factory=History)


class Running(Protocol):
    """The trainers of this node, from their start to their end."""

    killed: tuple[KilledByUs, str]

    @property
    def over(self) -> bool: ...
    @property
    def pids(self) -> tuple[int, ...]:
        """Of the trainers, which this process waits for."""

    @property
    def held(self) -> tuple[subprocess.Popen[bytes], ...]:
        """Those that were killed, and that the kernel does not let go: they wait for a disk or a
        device. They count as ended; no other trainer starts before they are gone."""

    @property
    def garbage(self) -> str:
        """Why messages cannot be read any more; '' if they can."""

    @property
    def tightest(self) -> Reading | None: ...
    @property
    def end(self) -> TrainerEnd | None:
        """The final record; after `finish`."""

    @property
    def conclusive(self) -> bool:
        """The final record is an error that ends the run."""

    def wait(self, until: float | None) -> list[Event]:
        """Waits until something happens, at most until `until`; returns the events."""

    def send(self, message: Mapping[str, Any]) -> bool: ...
    def dump_stacks(self) -> None: ...
    def kill(self, why: KilledByUs, text: str) -> None: ...
    def stop_tree(self) -> None: ...
    def continue_tree(self) -> None: ...
    def finish(self) -> int:
        """Reaps what has ended; returns the return code."""

    def death(self, code: int, say: Callable[[str], None]) -> tuple[Finding, Died]:
        """Explains the death and writes the incident; `say` gets why that was not possible."""

    def close(self) -> None: ...


class Waiting(Protocol):
    """Shows what is waited for, and for how many seconds; '' when it has come."""

    def __call__(self, text: str, seconds: float = 0.0) -> None: ...


class Team(Protocol):
    """The nodes of a run, as the supervisor of one of them sees them."""

    run_id: str
    """Which the next supervisor of this folder needs."""

    def begins(self, folder: RunFolder, request: TrainRequest, run_id: str) -> None:
        """Called once, with the folder claimed."""

    def show(self, waiting: Waiting, note: Callable[[str], None]) -> None:
        """`waiting` gets what is waited for, again and again."""

    def wait(self, signals: Signals, seconds: float) -> None:
        """Waits before a trainer starts, until something happens."""

    def events(self) -> Iterable[Event]:
        """What happened on other nodes."""

    def attempt(self, spawn: Spawn, history: History) -> Attempt | None:
        """The next attempt; None: not everybody is there yet. Raises what ends the run."""

    def among(self, running: RunningRanks) -> Running:
        """The trainers that were started for an attempt."""

    def decided(self, state: State, event: Event) -> Decision: ...
    def ended(self, error: Told | None) -> None:
        """The run ends now, on all nodes."""

    def close(self) -> None: ...


class Alone:
    """A run on one node."""

    def __init__(self, scale: Scale | None = None) -> None:
        self._scale = scale
        self._attempts = 0
        self.run_id = ""

    def begins(self, folder: RunFolder, request: TrainRequest, run_id: str) -> None:
        self.run_id = run_id

    def show(self, waiting: Waiting, note: Callable[[str], None]) -> None:
        pass

    def wait(self, signals: Signals, seconds: float) -> None:
        wait_for(signals, seconds)

    def events(self) -> Iterable[Event]:
        return ()

    def attempt(self, spawn: Spawn, history: History) -> Attempt | None:
        self._attempts += 1
        return Attempt(
            places=self._places(),
            overlay=spawn.overlay,
            save_every=spawn.save_every,
            history=history,
        )

    def _places(self) -> tuple[WorldPlace, ...]:
        if self._scale is None or self._scale.single:
            return ()
        from ttf.supervise.nodes.addresses import free_port, joined

        host = "127.0.0.1"
        store = joined(host, free_port(host))
        size = self._scale.ranks
        return tuple(
            WorldPlace(
                rank=rank,
                size=size,
                local_rank=rank,
                local_size=size,
                store=store,
                attempt=self._attempts,
                interface=self._scale.interface,
                exchange_timeout_s=self._scale.exchange_timeout_s,
            )
            for rank in range(size)
        )

    def among(self, running: RunningRanks) -> Running:
        return running

    def decided(self, state: State, event: Event) -> Decision:
        return decide(state, event)

    def ended(self, error: Told | None) -> None:
        pass

    def close(self) -> None:
        pass
