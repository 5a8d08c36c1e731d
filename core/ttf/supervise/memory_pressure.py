"""What the supervisor does when memory runs short: a warning, freeing of caches, then a restart
with a remedy."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from ttf.incidents.death import Remedy
from ttf.supervise.events import Action, AskToLeave, AskToShed, Kill, Pressure, Say
from ttf.supervise.restart_rules import Decision, applicable, shown
from ttf.supervise.state import State, Trainer

# Below this share, the next crossing is reported again if the last report is old enough: the memory
# of a training rises and falls with every step.
ENOUGH: Final = 0.80
NEWS_AFTER_S: Final = 600.0
WARN: Final = 0.85
SHED: Final = 0.90
LEAVE: Final = 0.95
# Above this share there is no time to save: the kernel would kill next, without a reason.
LAST: Final = 0.99
SHED_EVERY_S: Final = 30.0


def after_pressure(state: State, trainer: Trainer, event: Pressure) -> Decision:
    """Handles a look at the memory of a running trainer."""
    if trainer.killed_at is not None or trainer.hang is not None:
        return state, ()
    if event.share < ENOUGH:
        if trainer.warned_at is not None and event.now - trainer.warned_at >= NEWS_AFTER_S:
            trainer = replace(trainer, warned_at=None, full_said=False)
        return replace(state, trainer=trainer), ()
    if trainer.leave_at is not None:
        return _leaving(state, trainer, event)
    actions: list[Action] = []
    if event.share >= WARN and trainer.warned_at is None:
        trainer = replace(trainer, warned_at=event.now)
        actions.append(Say(text=_warning(state, event)))
    if event.share >= SHED and _may_shed(trainer, event.now):
        trainer = replace(trainer, shed_at=event.now)
        actions.append(AskToShed())
    if event.share >= LEAVE and state.stopping is None:
        trainer, more = _near_full(state, trainer, event)
        actions.extend(more)
    return replace(state, trainer=trainer), tuple(actions)


def _leaving(state: State, trainer: Trainer, event: Pressure) -> Decision:
    # It was asked to leave; the memory may not last that long.
    if event.share < LAST or _worker_is_killed_first(state, trainer):
        return state, ()
    text = f"memory reached {_share(event)} before it could save and end"
    trainer = replace(trainer, killed_at=event.now)
    return replace(state, trainer=trainer), (Kill(why="memory", text=text),)


def _worker_is_killed_first(state: State, trainer: Trainer) -> bool:
    # While a worker process mines, the kernel kills the worker and not the trainer.
    return trainer.phase == "mining" and state.flat.get("miner.isolation") == "process"


def _may_shed(trainer: Trainer, now: float) -> bool:
    return trainer.shed_at is None or now - trainer.shed_at >= SHED_EVERY_S


def _near_full(
    state: State, trainer: Trainer, event: Pressure
) -> tuple[Trainer, tuple[Action, ...]]:
    remedy = _remedy(state)
    if remedy is not None:
        text = f"Memory is at {_share(event)}. ttf saves the run and restarts it with a remedy: "
        say = Say(text=f"{text}{shown(remedy)}.", loud=True)
        return replace(trainer, leave_at=event.now), (say, AskToLeave())
    if trainer.full_said:
        return trainer, ()
    text = (
        f"Memory is at {_share(event)}. Training continues unchanged, and the kernel may kill "
        "it, because "
    )
    end = f"{_why_not(state)}. The checkpoints are kept."
    return replace(trainer, full_said=True), (Say(text=text + end, loud=True),)


def _remedy(state: State) -> Remedy | None:
    may_restart = state.settings.remedies and state.settings.max_restarts > 0
    return applicable(state, state.memory_remedies) if may_restart else None


def _why_not(state: State) -> str:
    if not state.settings.remedies:
        return "remedies are disabled (supervise.remedies)"
    if state.settings.max_restarts == 0:
        return "restarts are disabled (supervise.max_restarts)"
    return "there is no setting that would reduce the memory of the run"


def _warning(state: State, event: Pressure) -> str:
    remedy = _remedy(state)
    last = (
        f"ttf does nothing more, because {_why_not(state)}"
        if remedy is None
        else f"ttf saves the run and restarts it with a remedy: {shown(remedy)}"
    )
    return (
        f"Memory is at {_share(event)}. At {SHED:.0%}, ttf frees its caches. At {LEAVE:.0%}, "
        f"{last}."
    )


def _share(event: Pressure) -> str:
    return f"{event.share:.0%} of the limit" + (f" ({event.text})" if event.text else "")
