"""After deaths a trainer saves as often as the time between them asks for."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from tests.kit.supervision_story import HALVE, Run, spawn

from ttf.supervise.events import Checkpointed, GiveUp, Life, SaveEvery
from ttf.supervise.restart_rules import young


@dataclass(kw_only=True)
class World:
    """A run that is killed: `lasts` tells after how many seconds of training; always at `wall`."""

    lasts: Callable[[], float]
    wall: int = 10**9
    step_s: float = 0.01
    save_s: float = 0.05
    steps: int = 3000

    def deaths(self, **flat: Any) -> int:
        """Trains to the end; -1 if the run was given up. A checkpoint beside the training is never
        done in time."""
        run, saved, save_every, deaths = Run(), 0, 0, 0
        while True:
            run.starts(**flat)
            ends_at, now, step, start = self.lasts(), 0.0, saved, saved
            while now + self.step_s <= ends_at and step < min(self.steps, self.wall):
                now, step = now + self.step_s, step + 1
                if 0 < save_every <= step - saved:
                    now += self.save_s
                    if now > ends_at:
                        break
                    saved = step
                    lived = Life(steps=step - start, seconds=now)
                    event = Checkpointed(now=run.now, step=step, cost_s=self.save_s, lived=lived)
                    for action in run.sees(event):
                        assert isinstance(action, SaveEvery)
                        save_every = action.steps
            if step >= self.steps:
                return deaths
            deaths += 1
            actions = run.dies(
                "killed",
                step=step,
                checkpoint_step=saved if saved else -1,
                lived=Life(steps=step - start, seconds=min(now, ends_at)),
            )
            if isinstance(actions[-1], GiveUp):
                return -1
            save_every = spawn(actions).save_every


@pytest.mark.parametrize("save_s", [0.001, 0.05, 0.15])
def test_a_run_that_dies_every_twenty_steps_gets_through(save_s: float) -> None:
    """0.15 s: fifteen of the twenty steps are lost to one checkpoint."""
    deaths = World(lasts=lambda: 0.205, save_s=save_s).deaths(checkpoint__every_s=60.0)
    assert 0 < deaths < 3000


def test_a_run_that_can_do_one_step_and_save_it_gets_through() -> None:
    assert World(lasts=lambda: 0.065, steps=300).deaths() > 0


def test_a_run_that_dies_at_random_moments_gets_through() -> None:
    draw = random.Random(3)
    assert World(lasts=lambda: draw.expovariate(1 / 0.5)).deaths() > 0


def test_a_run_that_dies_always_at_the_same_step_is_given_up() -> None:
    """Checkpoints come nearer to that step: that is no progress."""
    assert World(lasts=lambda: 1e6, wall=500).deaths() == -1


def test_rare_deaths_leave_the_configured_interval() -> None:
    run = Run().starts(checkpoint__every_s=60.0, checkpoint__every_steps=None)
    run.sees(Checkpointed(now=0, step=1, cost_s=1.0))
    lived = Life(steps=90_000, seconds=3600.0)
    assert spawn(run.dies(checkpoint_step=80_000, lived=lived)).save_every == 0
    run = Run().starts(checkpoint__every_s=None, checkpoint__every_steps=100)
    lived = Life(steps=90_000, seconds=3600.0)
    assert spawn(run.dies(checkpoint_step=80_000, lived=lived)).save_every == 0


def test_a_life_without_a_newer_checkpoint_halves_the_interval_even_below_the_configured() -> None:
    run = Run()
    said = []
    for step in (9, 8, 7, 6):
        lived = Life(steps=20, seconds=1.0)
        action = spawn(run.starts(checkpoint__every_steps=5).dies(step=step, lived=lived))
        said.append(action.save_every)
        assert "with a checkpoint every " in action.because
    assert said == [10, 5, 2, 1] and "a checkpoint every step." in action.because


def test_deaths_before_the_first_step_say_nothing_about_the_steps() -> None:
    run = Run().starts()
    action = spawn(run.dies(phase="start", checkpoint_step=40, step=0))
    assert action.save_every == 0 and "checkpoint every" not in action.because


def test_a_trainer_that_lives_on_is_told_to_save_less_often_and_at_last_as_configured() -> None:
    run = Run().starts(checkpoint__every_s=60.0)
    run.sees(Checkpointed(now=0, step=10, cost_s=0.1))
    first = spawn(run.dies(checkpoint_step=10, lived=Life(steps=20, seconds=2.0))).save_every
    run.starts(checkpoint__every_s=60.0)
    told = []
    for steps in (10, 100, 1000, 10_000, 10**5, 10**6, 10**7):
        lived = Life(steps=steps, seconds=steps / 10)
        event = Checkpointed(now=run.now, step=steps, cost_s=0.1, lived=lived)
        told += [action.steps for action in run.sees(event) if isinstance(action, SaveEvery)]
    assert first == 6
    assert told == [*sorted(told[:-1]), 0] and told[0] >= 2 * first


def test_a_remedy_keeps_the_interval() -> None:
    run = Run().starts()
    run.sees(Checkpointed(now=0, step=5, cost_s=0.1))
    lived = Life(steps=20, seconds=2.0)
    action = spawn(run.dies("oom-kill", certain=True, remedies=(HALVE,), lived=lived))
    assert action.overlay and action.save_every == 6


def test_the_interval_is_never_below_a_step() -> None:
    assert young([Life()], 0.0) == young([Life(steps=1, seconds=9.0)], 100.0) == 1
