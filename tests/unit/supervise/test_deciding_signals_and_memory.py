"""What the supervisor decides when it is signalled and when memory runs short."""

from __future__ import annotations

import signal
from typing import Any

import pytest
from tests.kit.supervision_story import ADVICE, HALVE, ISOLATE, Run, spawn

from ttf.incidents.death import Remedy
from ttf.supervise.decide import wake_at
from ttf.supervise.events import (
    AskToLeave,
    AskToShed,
    AskToStop,
    DumpStacks,
    Ended,
    EndWithError,
    Finish,
    Kill,
    Say,
    Signalled,
    Stop,
    Tick,
)

# --- signals --------------------------------------------------------------------------------------


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_a_first_signal_is_passed_on_and_the_trainers_end_is_the_runs(signum: int) -> None:
    run = Run().trains()
    assert run.sees(Signalled(now=1, signum=signum)) == (AskToStop(signum=signum),)
    assert run.sees(Ended(now=2, exit_code=128 + signum)) == (Finish(),)


def test_a_second_signal_ends_at_once() -> None:
    run = Run().trains()
    run.sees(Signalled(now=1, signum=2))
    kill, stop = run.sees(Signalled(now=1, signum=15))
    assert isinstance(kill, Kill) and kill.why == "stop" and stop == Stop(signum=15)
    assert run.is_over()


def test_a_signal_before_the_first_step_of_a_trainer_ends_at_once() -> None:
    run = Run().starts()
    kill, stop = run.sees(Signalled(now=1, signum=15))
    assert isinstance(kill, Kill) and kill.why == "stop" and stop == Stop(signum=15)
    assert run.is_over()


def test_a_signal_during_the_wait_before_a_restart_ends_at_once() -> None:
    run = Run()
    run.starts().dies()
    run.starts().dies()
    assert run.sees(Signalled(now=1, signum=15)) == (Stop(signum=15),)


def test_a_trainer_that_dies_while_it_stops_is_not_restarted() -> None:
    run = Run().trains()
    run.sees(Signalled(now=1, signum=15))
    assert run.dies("oom-kill", certain=True, remedies=(HALVE,)) == (Stop(signum=15),)


def test_an_error_while_it_stops_is_told_rather_than_the_stop() -> None:
    run = Run().trains()
    run.sees(Signalled(now=1, signum=15))
    assert isinstance(run.dies("disk-full", retry=False)[-1], EndWithError)


@pytest.mark.parametrize(("hang", "limit"), [(30.0, 30.0), (None, 600.0)])
def test_a_stop_that_is_not_obeyed_is_a_hang_and_ends_as_a_stop(
    hang: float | None, limit: float
) -> None:
    run = Run(hang_timeout_s=hang).trains()
    run.sees(Signalled(now=1, signum=2))
    while run.now < limit - 5:
        run.beats("mining", after=5.0)
    assert run.sees(Tick(now=1 + limit)) == (DumpStacks(),)
    (kill,) = run.waits()
    assert isinstance(kill, Kill) and "after a stop request" in kill.text
    assert run.dies("hang") == (Stop(signum=2),)


def test_a_signal_that_meets_a_dying_trainer_ends_with_its_death() -> None:
    run = Run(hang_timeout_s=60).starts()
    run.waits()
    run.waits()
    assert run.sees(Signalled(now=run.now, signum=2)) == ()
    assert run.dies("hang") == (Stop(signum=2),)


# --- memory ---------------------------------------------------------------------------------------


def test_a_warning_comes_once_in_ten_minutes_of_crossings() -> None:
    run = Run().starts(memory_remedies=(HALVE,))
    (told,) = run.presses(0.86)
    assert isinstance(told, Say) and "86%" in told.text and "9 GB of 10 GB" in told.text
    assert "train.batch_size = 64 (rounding)" in told.text
    assert run.presses(0.84) == run.presses(0.89) == run.presses(0.81) == run.presses(0.86) == ()
    run.presses(0.79, after=60.0)
    assert run.presses(0.86) == ()
    run.presses(0.79, after=600.0)
    assert [type(action) for action in run.presses(0.86)] == [Say]


def test_caches_are_asked_for_every_half_minute() -> None:
    run = Run().starts()
    assert [type(action) for action in run.presses(0.92)] == [Say, AskToShed]
    assert run.presses(0.93, after=29.0) == ()
    assert run.presses(0.91, after=1.0) == (AskToShed(),)


def test_the_trainer_leaves_in_time_and_comes_back_with_less_need() -> None:
    run = Run().starts(memory_remedies=(ADVICE, HALVE))
    run.presses(0.92)
    told, ask = run.presses(0.96, after=1.0)
    assert isinstance(told, Say) and told.loud and isinstance(ask, AskToLeave)
    assert run.presses(0.97, after=1.0) == ()
    assert run.sees(Ended(now=4, exit_code=0, left="memory")) == ()
    assert wake_at(run.state) is None
    died = run.dies("memory-limit", certain=True, remedies=(ADVICE, HALVE), checkpoint_step=7)
    assert spawn(died).overlay["train.batch_size"].value == 64


def test_a_trainer_that_does_not_leave_is_killed() -> None:
    run = Run().starts(memory_remedies=(HALVE,))
    run.presses(0.96)
    assert run.presses(0.98, after=5.0) == ()
    run.beats("forward", after=5.0)
    (kill,) = run.waits()
    assert run.now == 20.0 and isinstance(kill, Kill) and kill.why == "memory"


def test_there_is_no_time_left_beyond_the_last_hundredth() -> None:
    run = Run().starts(memory_remedies=(HALVE,))
    run.presses(0.96)
    (kill,) = run.presses(0.99, after=0.25)
    assert isinstance(kill, Kill) and kill.why == "memory" and "99%" in kill.text
    assert run.presses(1.0, after=0.25) == ()


def test_a_trainer_whose_worker_is_the_first_victim_is_not_killed() -> None:
    run = Run().starts(memory_remedies=(HALVE,), miner__isolation="process")
    run.beats("mining")
    run.presses(0.96)
    assert run.presses(1.0, after=0.25) == ()
    run.beats("data")
    (kill,) = run.presses(1.0, after=0.25)
    assert isinstance(kill, Kill)


@pytest.mark.parametrize(
    ("settings", "remedies", "why"),
    [
        ({}, (), "there is no setting"),
        ({}, (ADVICE, ISOLATE), "there is no setting"),
        ({"remedies": False}, (HALVE,), "remedies are disabled"),
        ({"max_restarts": 0}, (HALVE,), "restarts are disabled"),
    ],
)
def test_where_nothing_can_be_changed_nobody_is_asked_to_leave(
    settings: dict[str, Any], remedies: tuple[Remedy, ...], why: str
) -> None:
    run = Run(**settings).starts(memory_remedies=remedies)
    warned, shed, told = run.presses(0.96)
    assert isinstance(warned, Say) and isinstance(shed, AskToShed)
    assert isinstance(told, Say) and why in told.text and told.loud
    assert run.presses(0.999, after=1.0) == ()


def test_memory_does_not_disturb_a_stop() -> None:
    run = Run().trains(memory_remedies=(HALVE,))
    run.sees(Signalled(now=1, signum=2))
    assert not any(isinstance(action, AskToLeave) for action in run.presses(0.97))


def test_a_signal_after_it_left_for_memory_ends_at_once() -> None:
    run = Run().trains(memory_remedies=(HALVE,))
    run.presses(0.96)
    run.sees(Ended(now=2, exit_code=0, left="memory"))
    assert run.sees(Signalled(now=2, signum=2)) == (Stop(signum=2),)


def test_a_trainer_that_left_for_memory_while_it_was_asked_to_stop_has_stopped() -> None:
    run = Run().trains(memory_remedies=(HALVE,))
    run.presses(0.96)
    run.sees(Signalled(now=2, signum=2))
    assert run.sees(Ended(now=3, exit_code=0, left="memory")) == (Stop(signum=2),)
