"""What follows a death: an unchanged restart, a restart with a remedy, an error, or giving up; and how
often the next trainer saves.

Progress is a newer checkpoint, or more on the disk of a mining round or calibration (`kept_work`).

A checkpoint costs C seconds, a death costs the steps since the last one. With a mean time M between
deaths, Young's interval sqrt(2 C M) loses least (https://doi.org/10.1145/361147.361115). It assumes
that C is small beside M; here half of a life is the longest, so that a trainer that lives as long as
those before saves at least once. Where that was too long as well, the next interval is half of it,
down to every step. The trainer waits for these checkpoints: beside steps of a millisecond, none would
be written before the next death.

The numbers of a run do not depend on when it is saved, so the interval may follow the clock.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Final

from ttf.incidents.death import Remedy
from ttf.rundir.request import Change, History
from ttf.supervise.events import (
    Action,
    Checkpointed,
    Died,
    EndWithError,
    GiveUp,
    Life,
    SaveEvery,
    Say,
    Spawn,
    Stop,
)
from ttf.supervise.state import Edit, State, Strike

# After so many deaths in a row at one place, the remedy is applied even if it is not certain.
STRIKES: Final = 3
# Only a remedy helps against these: a device with wrong results has them after a restart, too.
MET_AGAIN: Final = frozenset({"non-finite"})
# Not the fault of the code that ran: a plugin in which a trainer died so is tried again, once.
FROM_OUTSIDE: Final = frozenset(
    {"killed", "cpu-limit", "oom-kill", "memory-limit", "alloc-failure", "disk-full"}
)
# In a row, without a newer checkpoint. Halving a batch of a million takes twenty.
MOST_REMEDIES: Final = 24
LONGEST_DELAY_S: Final = 30.0
_MOST_LISTED: Final = 20
_WORK: Final = {"mining": "mining round", "calibrate": "calibration"}
REMEMBERED: Final = 8  # lives; earlier ones say little about now
# A trainer that lives on is told a longer interval only if it is so many times as long.
_WORTH_SAYING: Final = 2

Decision = tuple[State, tuple[Action, ...]]


def after_death(state: State, died: Died) -> Decision:
    configured = state.trainer is not None and state.trainer.configured
    state = _with_strike(state, died)
    streak = _streak(state.strikes)
    if not died.retry:
        return _error(state, died, "A restart would not help.")
    if state.stopping is not None:
        stop = Stop(signum=state.stopping.signum)
        return over(_with_outcome(state, "stopped on request")), (stop,)
    if died.name == "python-error" and died.phase == "start" and not configured:
        return _error(
            state, died, "The error occurred before the trainer had read its configuration."
        )
    remedy = _due_remedy(state, died, streak)
    if remedy is not None and state.settings.remedies and state.settings.max_restarts > 0:
        return _remedied(state, died, remedy)
    # A plugin is imported at the start, where a restart meets it again. Later it is only at work (a
    # miner inside the trainer), and what is known about the crash, its remedy, matters more.
    at_import = died.plugin is not None and (died.phase == "start" or remedy is None)
    if at_import and (died.name not in FROM_OUTSIDE or streak > 1):
        return _error(state, died, "A restart would load the plugin again.")
    if died.name == "python-error" and streak > 1:
        where = f"in {died.phase} at step {died.step}"
        return _error(state, died, f"The same error occurred twice in a row {where}.")
    if died.name == "python-error" and state.settings.max_restarts == 0:
        return _error(state, died, "Restarts are disabled (supervise.max_restarts is 0).")
    told: tuple[Action, ...] = () if remedy is None else (_say_remedy(died, remedy),)
    if died.name in MET_AGAIN:
        state, error = _error(state, died, "A restart with the same settings would fail again.")
        return state, (*told, *error)
    if state.restarts >= state.settings.max_restarts:
        state = _with_outcome(state, "gave up")
        return over(state), (*told, GiveUp(text=_all_deaths(state)))
    state, spawn = _unchanged(state, died)
    return state, (*told, spawn)


def over(state: State) -> State:
    return replace(state, stage="over", trainer=None)


def applicable(state: State, remedies: Iterable[Remedy]) -> Remedy | None:
    """Returns the first remedy that changes something and was not tried before."""
    if state.remedies_in_a_row >= MOST_REMEDIES:
        return None
    for remedy in remedies:
        if not _edits(remedy) <= state.applied and not _in_force(state, remedy):
            return remedy
    return None


def _edits(remedy: Remedy) -> frozenset[Edit]:
    return frozenset((key, repr(value)) for key, value in remedy.set.items())


def shown(remedy: Remedy) -> str:
    """Returns what a remedy changes, and its effect on the numbers."""
    edits = ", ".join(f"{key} = {_toml(value)}" for key, value in remedy.set.items())
    return f"{edits} ({remedy.deviation or 'the results of the training do not change'})"


def _with_strike(state: State, died: Died) -> State:
    """Adds the death to the state. A newer checkpoint since the last death resets the counters, and
    so does more finished work of a mining round or calibration; unless it only came nearer to the
    same crash."""
    trainer, history = state.trainer, state.history
    wall = 0.0 if trainer is None else max(0.0, died.now - trainer.started_at)
    strike = Strike(
        incident=died.incident,
        name=died.name,
        step=died.step,
        phase=died.phase,
        checkpoint_step=died.checkpoint_step,
        outcome="",
        kept_work=died.kept_work,
    )
    newer = died.checkpoint_step > state.best_checkpoint
    best_work = max(state.best_work, (died.step, died.kept_work) if died.kept_work else (-1, 0))
    further = newer or best_work > state.best_work
    progress = further and (not state.strikes or strike.place != state.strikes[-1].place)
    return replace(
        after_life(state, died.lived, saved=newer),
        trainer=None,
        strikes=(*state.strikes, strike),
        best_checkpoint=max(state.best_checkpoint, died.checkpoint_step),
        best_work=best_work,
        restarts=0 if progress else state.restarts,
        remedies_in_a_row=0 if progress else state.remedies_in_a_row,
        history=replace(
            history,
            wall_s=history.wall_s + wall,
            incidents=(*history.incidents, died.incident),
        ),
    )


def _streak(strikes: tuple[Strike, ...]) -> int:
    """Returns how many of the last deaths were the same, at most `STRIKES`."""
    last = strikes[-STRIKES:]
    for count, strike in enumerate(reversed(last)):
        if strike.place != strikes[-1].place:
            return count
    return len(last)


def _due_remedy(state: State, died: Died, streak: int) -> Remedy | None:
    if died.certain or streak >= STRIKES:
        return applicable(state, died.remedies)
    return None


def _in_force(state: State, remedy: Remedy) -> bool:
    def now(key: str) -> Any:
        change = state.overlay.get(key)
        return state.flat.get(key) if change is None else change.value

    known = state.overlay.keys() | state.flat.keys()
    return all(key in known and now(key) == value for key, value in remedy.set.items())


def _remedied(state: State, died: Died, remedy: Remedy) -> Decision:
    origin = f"remedy of incident {died.incident} ({died.name})"
    changes = {
        key: Change(value=value, origin=origin, deviation=remedy.deviation)
        for key, value in remedy.set.items()
    }
    overlay = {**state.overlay, **changes}
    state = _with_outcome(state, f"restarted with a remedy: {shown(remedy)}")
    state = replace(
        state,
        stage="spawning",
        overlay=overlay,
        applied=state.applied | _edits(remedy),
        restarts=0,
        remedies_in_a_row=state.remedies_in_a_row + 1,
        history=_restarted(state.history),
        paces={},  # another device or batch size has other pauses
        longest_save_s=0.0,
    )
    going_on = f"ttf restarts the run from {_restart_point(died)} with a remedy"
    because = f"{_describe(died)}: {going_on}: {shown(remedy)}."
    return state, (Spawn(overlay=overlay, save_every=state.save_every, because=because),)


def _unchanged(state: State, died: Died) -> tuple[State, Spawn]:
    earlier, most = state.restarts, state.settings.max_restarts
    delay = 0.0 if earlier == 0 else min(LONGEST_DELAY_S, 2.0 ** min(earlier - 1, 10))
    when = f" in {delay:g} s" if delay else ""
    count = f"restart {earlier + 1} of {most} without progress"
    state = replace(
        _with_outcome(state, "restarted unchanged"),
        stage="spawning",
        restarts=earlier + 1,
        history=_restarted(state.history),
    )
    going_on = f"ttf restarts the run from {_restart_point(died)} unchanged{when}"
    because = f"{_describe(died)}: {going_on} ({count}){shorter(state)}."
    if died.kept_work:
        because += f" What is finished of the {_WORK.get(died.phase, 'work')} is not repeated."
    spawn = Spawn(
        delay_s=delay, overlay=state.overlay, save_every=state.save_every, because=because
    )
    return state, spawn


def _restarted(history: History) -> History:
    return replace(history, restarts=history.restarts + 1)


def _error(state: State, died: Died, why: str) -> Decision:
    state = _with_outcome(state, "ended with this error")
    return over(state), (EndWithError(incident=died.incident, text=why, plugin=died.plugin),)


def _with_outcome(state: State, outcome: str) -> State:
    *before, last = state.strikes
    return replace(state, strikes=(*before, replace(last, outcome=outcome)))


def _say_remedy(died: Died, remedy: Remedy) -> Say:
    return Say(
        text=(
            f"{_describe(died)}: the remedy is {shown(remedy)}. ttf did not apply it, because "
            "remedies or restarts are disabled (supervise.remedies, supervise.max_restarts). "
            f"To apply it: {remedy.text}"
        ),
        loud=True,
    )


def _all_deaths(state: State) -> str:
    """Returns a text about all deaths, what was tried, and what to do."""
    strikes, most = state.strikes, state.settings.max_restarts
    left_out = len(strikes) - _MOST_LISTED
    lines = [
        f"The trainer died {_times(len(strikes))}. ttf restarted it {_times(most)} in a row "
        "without a newer checkpoint (the limit is supervise.max_restarts)."
        if most
        else (
            f"The trainer died {_times(len(strikes))}, and restarts are disabled "
            "(supervise.max_restarts is 0)."
        ),
        *([f"  ({left_out} earlier deaths are not listed.)"] if left_out > 0 else []),
        *(f"  {_strike_line(strike)}" for strike in strikes[-_MOST_LISTED:]),
    ]
    if state.overlay:
        tried = ", ".join(f"{k} = {_toml(c.value)} ({c.origin})" for k, c in state.overlay.items())
        lines.append(f"Settings changed by remedies: {tried}.")
    last = strikes[-1]
    lines.append(
        f"What to do: read incidents/{last.incident}/ in the run folder (evidence, stacks, the "
        "end of stderr), and check this machine with `ttf doctor`. The run can continue from "
        f"{_restart_point(last)}."
    )
    return "\n".join(lines)


def _strike_line(strike: Strike) -> str:
    kept = (
        "no checkpoint"
        if strike.checkpoint_step < 0
        else f"newest checkpoint: step {strike.checkpoint_step}"
    )
    place = f"at step {strike.step} in {strike.phase} ({kept})"
    return f"{strike.incident} {strike.name} {place}: {strike.outcome}"


def _describe(died: Died) -> str:
    return f"Incident {died.incident}, {died.name} in {died.phase} at step {died.step}"


def _restart_point(died: Died | Strike) -> str:
    step = died.checkpoint_step
    return "the beginning (there is no checkpoint yet)" if step < 0 else f"step {step}"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _toml(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


# --- how often it saves -----------------------------------------------------------------------------


def after_life(state: State, life: Life | None, *, saved: bool) -> State:
    """After a death. `saved`: there is a newer checkpoint than at any death before."""
    if life is None:  # a death before the first step says nothing about the steps
        return state
    lives = (*state.lives, life)[-REMEMBERED:]
    steps = young(lives, state.save_cost_s)
    if saved:
        return replace(state, lives=lives, save_every=_if_shorter(state, lives, steps))
    bounds = [steps, state.save_every // 2 if state.save_every else steps]
    if life.steps:
        bounds.append(life.steps // 2)
    return replace(state, lives=lives, save_every=max(1, min(bounds)))


def after_checkpoint(state: State, event: Checkpointed) -> tuple[State, tuple[Action, ...]]:
    """While a trainer lives on, deaths become rarer and the interval longer."""
    state = replace(state, save_cost_s=event.cost_s)
    if not state.save_every:
        return state, ()
    # The life that goes on counts, but not as a death.
    *earlier, last = state.lives
    longer = Life(steps=last.steps + event.lived.steps, seconds=last.seconds + event.lived.seconds)
    lives = (*earlier, longer)
    steps = _if_shorter(state, lives, young(lives, event.cost_s))
    if 0 < steps < _WORTH_SAYING * state.save_every:
        return state, ()
    return replace(state, save_every=steps), (SaveEvery(steps=steps),)


def young(lives: Sequence[Life], cost_s: float) -> int:
    """The interval in steps, at least 1. Without a known cost: half of a mean life.

    >>> young([Life(steps=20, seconds=2.0)], 0.1), young([Life(steps=20, seconds=2.0)], 0.0)
    (6, 10)
    """
    mean = sum(life.steps for life in lives) / len(lives)
    seconds = sum(life.seconds for life in lives) / len(lives)
    if not cost_s or not seconds:
        return max(1, int(mean / 2))
    cost = min(1.0, cost_s / seconds)  # as a share of a life
    return max(1, int(mean * min((1 - cost) / 2, math.sqrt(2 * cost))))


def shorter(state: State) -> str:
    """For people: the end of a sentence about a restart."""
    if not state.save_every:
        return ""
    often = "step" if state.save_every == 1 else f"{state.save_every} steps"
    return f", with a checkpoint every {often}"


def _if_shorter(state: State, lives: Sequence[Life], steps: int) -> int:
    """0 if the configuration saves as often anyway, beside the training."""
    every_steps = state.flat.get("checkpoint.every_steps")
    every_s = state.flat.get("checkpoint.every_s")
    total = sum(life.steps for life in lives)
    step_s = sum(life.seconds for life in lives) / total if total else 0.0
    if every_steps is not None and steps >= every_steps:
        return 0
    return 0 if every_s is not None and steps * step_s >= every_s else steps
