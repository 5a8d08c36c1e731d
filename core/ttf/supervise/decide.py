"""What is done about a run: a pure function from (state, event) to (state, actions).

No clock, no files, no processes: the time is part of each event, and `supervisor.py` carries the
actions out. So every decision can be replayed, and hypothesis can look for the bad ones.

```
             initial: Spawn
                   |   +----------- Died: Spawn again, unchanged or with a remedy -----+
                   v   v                                                               |
    +--------- spawning                              Died                              |
    |              | Started           +-----------------------------------------------+
    |              v                   |                                               |
    |           running ---------------+---- Ended(left="memory") ----> left ----------+
    |              | Tick at a deadline: DumpStacks, 2 s later Kill(hang); then Died    |
    |              | Pressure: Say, AskToShed, AskToLeave, Kill(memory); then Died      |
    | Signalled    | Signalled: AskToStop; at start, or a second one: Kill(stop), Stop  |
    v              v                                                                   v
  over: Stop     over: Finish on Ended, GiveUp or EndWithError or Stop on Died     over: Stop
```

What the caller owes this function:
- Spawn is answered by Started once the process is there. Where it cannot be made: Started, then
  Died. A signal during `delay_s` is passed on at once; the Stop it gives cancels the Spawn.
- A trainer ends with exactly one of Ended and Died. `Ended(left="memory")`, its answer to
  AskToLeave, is followed by a Died of class memory-limit as soon as the incident is written: it
  carries the remedy that the next trainer is started with.
- A Kill is answered by Died (or Ended, where the trainer was faster).
- A Tick comes at `wake_at`, after the flight record was read and passed on as a Beat. After the
  tree was suspended (SIGTSTP and SIGCONT), Suspended comes before anything else.
- Stop, GiveUp, EndWithError and Finish are the last action; nothing is done after them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import assert_never

from ttf.rundir.request import Change, History
from ttf.supervise.events import (
    Action,
    AskToStop,
    Beat,
    Checkpointed,
    Configured,
    Died,
    DumpStacks,
    Ended,
    Event,
    Finish,
    Kill,
    Limited,
    Pressure,
    Say,
    Settings,
    Signalled,
    Spawn,
    Started,
    Stop,
    Suspended,
    Tick,
)
from ttf.supervise.hang_deadlines import after_beat, next_deadline, suspended
from ttf.supervise.memory_pressure import after_pressure
from ttf.supervise.restart_rules import Decision, after_checkpoint, after_death, over
from ttf.supervise.state import Hang, State, Stopping, Trainer

__all__ = ["State", "decide", "initial", "wake_at"]


def initial(
    now: float,
    overlay: Mapping[str, Change] | None = None,
    history: History | None = None,
    *,
    settings: Settings | None = None,
) -> Decision:
    """Returns the state before the first trainer, and its Spawn. `settings`: what is known before
    the trainer reports its configuration (--no-remedies)."""
    overlay = overlay or {}
    state = State(overlay=overlay, history=history or History(), settings=settings or Settings())
    return state, (Spawn(overlay=overlay),)


def decide(state: State, event: Event) -> Decision:
    if state.stage == "over":
        return state, ()
    if isinstance(event, Signalled):
        return _signalled(state, event)
    if isinstance(event, Suspended):
        return suspended(state, event), ()
    if state.stage == "spawning" or state.trainer is None:
        return _awaiting(state, event)
    if isinstance(event, Died):
        return after_death(state, event)
    if state.stage == "left":
        return state, ()
    return _running(state, state.trainer, event)


def wake_at(state: State) -> float | None:
    """Returns the time of the next Tick; None if only an event can change something."""
    deadline = next_deadline(state)
    return None if deadline is None else deadline.at


def _awaiting(state: State, event: Event) -> Decision:
    # Only a start counts: other events come late, from an earlier trainer.
    if not isinstance(event, Started):
        return state, ()
    trainer = Trainer(started_at=event.now, beat_at=event.now)
    # Its request told it of them.
    history = replace(state.history, incidents=())
    return replace(state, stage="running", trainer=trainer, history=history), ()


def _running(state: State, trainer: Trainer, event: Event) -> Decision:
    match event:
        case Limited():
            return replace(state, settings=event.settings), ()
        case Configured():
            state = replace(
                state,
                trainer=replace(trainer, configured=True),
                settings=event.settings,
                flat=event.flat,
                memory_remedies=event.memory_remedies,
            )
            return state, ()
        case Beat():
            return after_beat(state, trainer, event), ()
        case Pressure():
            return after_pressure(state, trainer, event)
        case Ended():
            return _ended(state, event)
        case Tick():
            return _ticked(state, trainer, event)
        case Checkpointed():
            return after_checkpoint(state, event)
        case Started() | Signalled() | Suspended() | Died():
            # Started: it is a second one. The others never come here.
            return state, ()
        case _:
            assert_never(event)


def _signalled(state: State, event: Signalled) -> Decision:
    # The first signal is passed on. A second signal, or a signal without a trainer, ends the run
    # now. So does one before the first step of a trainer: there is nothing to save.
    stop = Stop(signum=event.signum)
    if state.stage != "running" or state.trainer is None:
        return over(state), (stop,)
    dying = state.trainer.killed_at is not None
    if state.stopping is not None:
        kill = Kill(why="stop", text="a second signal requested an immediate end")
        return over(state), (stop,) if dying else (kill, stop)
    if state.trainer.phase == "start" and not dying:
        kill = Kill(why="stop", text="a signal requested the end before the first step")
        return over(state), (kill, stop)
    state = replace(state, stopping=Stopping(signum=event.signum, at=event.now))
    return state, () if dying else (AskToStop(signum=event.signum),)


def _ended(state: State, event: Ended) -> Decision:
    if event.left != "memory":
        return over(state), (Finish(),)
    if state.stopping is not None:  # it has saved: that is all a stop asks for
        return over(state), (Stop(signum=state.stopping.signum),)
    return replace(state, stage="left"), ()


def _ticked(state: State, trainer: Trainer, event: Tick) -> Decision:
    due = next_deadline(state)
    if due is None or event.now < due.at:
        return state, ()
    action: Action
    match due.missed:
        case "hang":
            trainer = replace(trainer, hang=Hang(noticed_at=event.now, text=due.text))
            action = DumpStacks()
        case "dumped":
            trainer = replace(trainer, killed_at=event.now)
            action = Kill(why="hang", text=due.text)
        case "leave":
            trainer = replace(trainer, killed_at=event.now)
            action = Kill(why="memory", text=due.text)
        case "kill":
            trainer = replace(trainer, survives_said=True)
            action = Say(text=due.text, loud=True)
        case _:
            assert_never(due.missed)
    return replace(state, trainer=trainer), (action,)
