"""How often a trainer saves once trainers of this run have died.

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
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from ttf.supervise.events import Action, Checkpointed, Life, SaveEvery
from ttf.supervise.state import State

REMEMBERED: Final = 8  # lives; earlier ones say little about now
# A trainer that lives on is told a longer interval only if it is so many times as long.
_WORTH_SAYING: Final = 2


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
