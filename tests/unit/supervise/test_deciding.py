"""What the supervisor decides, one situation after the other. No process, no clock."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.kit.supervision_story import ADVICE, HALVE, ISOLATE, QUARTER, Run, spawn

from ttf.host.at_work import PluginWork
from ttf.rundir.request import Change, History
from ttf.supervise.decide import State, initial, wake_at
from ttf.supervise.events import (
    Action,
    Beat,
    Checkpointed,
    Died,
    DumpStacks,
    Ended,
    EndWithError,
    Event,
    Finish,
    GiveUp,
    Kill,
    Limited,
    Pressure,
    Say,
    Settings,
    Signalled,
    Spawn,
    Started,
    Suspended,
    Tick,
)
from ttf.supervise.hang_deadlines import silence_limit_s
from ttf.supervise.state import Pace, Trainer

IMPORT = PluginWork(
    doing="importing",
    plugin="miner.bad",
    distribution="ttf-bad",
    version="1.0",
    module="bad",
    brief=True,
)

# --- beginning and ending -----------------------------------------------------------------------


def test_a_run_begins_with_one_trainer_and_what_was_in_force_before() -> None:
    overlay = {"miner.isolation": Change(value="process", origin="--safe")}
    state, actions = initial(5.0, overlay, History(restarts=3))
    assert actions == (Spawn(overlay=overlay),)
    assert state.history.restarts == 3 and wake_at(state) is None


def test_the_trainers_own_end_is_the_runs_end() -> None:
    run = Run().starts()
    assert run.sees(Ended(now=1, exit_code=7)) == (Finish(),)
    assert run.is_over()
    assert run.dies() == () and run.sees(Signalled(now=2, signum=2)) == ()


@pytest.mark.parametrize("event", [Started(now=1), Tick(now=1), Checkpointed(now=1, step=3)])
def test_what_changes_nothing_changes_nothing(event: Event) -> None:
    run = Run().starts()
    before = run.state
    assert run.sees(event) == () and run.state == before


@pytest.mark.parametrize(
    "late",
    [
        Beat(now=1, at=1, step=9, phase="forward"),
        Pressure(now=1, share=1.0),
        Ended(now=1, exit_code=0),
        Died(now=1, incident="2", name="a", certain=True, step=1, phase="data", checkpoint_step=0),
    ],
    ids=lambda event: type(event).__name__,
)
def test_what_a_dead_trainer_said_is_late(late: Event) -> None:
    run = Run().starts()
    run.dies()
    before = run.state
    assert run.sees(late) == () and run.state == before


# --- deaths -------------------------------------------------------------------------------------


def test_a_first_death_is_answered_at_once_and_unchanged() -> None:
    run = Run().starts()
    action = spawn(run.dies("killed", checkpoint_step=4))
    assert action.delay_s == 0 and action.overlay == {}
    assert "Incident 001, killed in forward at step 7" in action.because
    assert "ttf restarts the run from step 4 unchanged" in action.because


def test_restarts_without_progress_wait_longer_and_longer_and_end() -> None:
    run = Run(max_restarts=8)
    delays = []
    for step in range(8):
        delays.append(spawn(run.starts().dies(step=step)).delay_s)
    assert delays == [0, 1, 2, 4, 8, 16, 30, 30]
    (end,) = run.starts().dies(step=99)
    assert isinstance(end, GiveUp) and run.is_over()


def test_the_story_of_a_run_that_was_given_up_tells_all() -> None:
    run = Run(max_restarts=3)
    run.starts().dies("oom-kill", certain=True, remedies=(HALVE,), checkpoint_step=5)
    for name in ("segfault", "abort", "hang"):
        run.starts().dies(name, checkpoint_step=5, phase="mining")
    (end,) = run.starts().dies("killed", step=8, checkpoint_step=5)
    assert isinstance(end, GiveUp)
    for part in (
        "died 5 times",
        "001 oom-kill at step 7 in forward (newest checkpoint: step 5): restarted with a remedy: train.batch_size = 64",
        "003 abort at step 7 in mining (newest checkpoint: step 5): restarted unchanged",
        "005 killed at step 8 in forward (newest checkpoint: step 5): gave up",
        "train.batch_size = 64 (remedy of incident 001 (oom-kill))",
        "incidents/005/",
        "ttf doctor",
        "continue from step 5",
    ):
        assert part in end.text, end.text


def test_a_checkpoint_that_grew_opens_a_new_account() -> None:
    run = Run(max_restarts=1)
    for step in range(50):
        assert spawn(run.starts().dies(step=step, checkpoint_step=step)).delay_s == 0
    assert len(run.state.strikes) == 50 and run.state.history.restarts == 50


def test_a_newest_checkpoint_that_was_damaged_and_made_again_is_no_progress() -> None:
    run = Run(max_restarts=3)
    seen: list[type[Action]] = []
    for step in (10, 5, 10, 5, 10):
        seen += map(type, run.starts().dies(checkpoint_step=step, name=f"class {len(seen)}"))
        if run.is_over():
            break
    assert seen == [Spawn, Spawn, Spawn, GiveUp]


def test_no_restart_is_allowed_and_none_is_made() -> None:
    run = Run(max_restarts=0).starts()
    told, end = run.dies("omp-duplicate", certain=True, remedies=(QUARTER,))
    assert isinstance(told, Say) and "train.batch_size = 32" in told.text
    assert isinstance(end, GiveUp) and "max_restarts is 0" in end.text


def test_the_time_of_all_processes_and_the_news_of_incidents_are_counted() -> None:
    run = Run().starts()
    run.now = 30.0
    run.dies()
    assert run.state.history == History(restarts=1, wall_s=30.0, incidents=("001",))
    run.starts()
    assert run.state.history.incidents == ()
    run.sees(Suspended(now=100.0, seconds=60.0))
    run.dies()
    assert run.state.history == History(restarts=2, wall_s=40.0, incidents=("002",))


# --- remedies -----------------------------------------------------------------------------------


def test_a_certain_cause_is_answered_with_its_remedy_at_the_first_time() -> None:
    run = Run().starts()
    action = spawn(run.dies("oom-kill", certain=True, remedies=(ADVICE, HALVE, ISOLATE)))
    origin = "remedy of incident 001 (oom-kill)"
    change = Change(value=64, origin=origin, deviation="rounding")
    assert action.overlay == run.state.overlay == {"train.batch_size": change}
    assert action.delay_s == 0 and "train.batch_size = 64 (rounding)." in action.because


def test_remedies_add_up_and_each_is_offered_for_the_settings_of_its_time() -> None:
    run = Run(max_restarts=1).starts(miner__isolation="none")
    run.dies("omp-duplicate", certain=True, remedies=(ISOLATE,))
    run.starts().dies("oom-kill", certain=True, remedies=(HALVE,))
    last = spawn(run.starts(train__batch_size=64).dies(certain=True, remedies=(QUARTER,)))
    assert {key: change.value for key, change in last.overlay.items()} == {
        "miner.isolation": "process",
        "train.batch_size": 32,
    }
    assert last.overlay["train.batch_size"].origin == "remedy of incident 003 (segfault)"


@pytest.mark.parametrize("name", ["segfault", "hang", "killed"])
def test_three_times_the_same_is_answered_with_the_next_remedy(name: str) -> None:
    run = Run()
    offered = (HALVE, ISOLATE, QUARTER)
    overlays = [spawn(run.starts().dies(name, remedies=offered)).overlay for _ in range(4)]
    values = [{key: change.value for key, change in overlay.items()} for overlay in overlays]
    # ISOLATE is what the configuration says already.
    assert values == [{}, {}, {"train.batch_size": 64}, {"train.batch_size": 32}]


@pytest.mark.parametrize("other", [{"step": 8}, {"phase": "mining"}, {"name": "abort"}])
def test_three_times_counts_only_where_class_step_and_phase_are_the_same(
    other: dict[str, Any],
) -> None:
    run = Run()
    for deaths in ({}, {}, other, {}, {}):
        action = spawn(run.starts().dies(**{"name": "segfault", "remedies": (HALVE,)} | deaths))
        assert action.overlay == {}


def test_an_edit_that_is_in_force_or_was_tried_is_not_made_again() -> None:
    run = Run(max_restarts=2).starts()
    deaths: dict[str, Any] = {"name": "oom-kill", "certain": True}
    assert spawn(run.dies(**deaths, remedies=(ISOLATE,))).overlay == {}  # in the configuration
    run.starts().dies(**deaths, remedies=(HALVE,))
    run.starts().dies(**deaths, remedies=(QUARTER,))
    before = run.state.overlay
    assert spawn(run.starts().dies(**deaths, remedies=(QUARTER, HALVE))).overlay == before
    spawn(run.starts().dies(**deaths, remedies=(QUARTER, HALVE)))
    assert isinstance(run.starts().dies(**deaths, remedies=(QUARTER, HALVE))[-1], GiveUp)


def test_a_remedy_is_still_applied_when_the_account_is_empty() -> None:
    run = Run(max_restarts=2)
    for _ in range(2):
        run.starts().dies(remedies=(HALVE,))
    assert spawn(run.starts().dies(remedies=(HALVE,))).overlay["train.batch_size"].value == 64


def test_with_remedies_off_the_remedy_is_named_and_the_run_goes_on_unchanged() -> None:
    run = Run(remedies=False).starts()
    told, action = run.dies("oom-kill", certain=True, remedies=(HALVE,))
    assert isinstance(told, Say) and told.loud
    assert (
        "To apply it: halve the micro-batch" in told.text and "train.batch_size = 64" in told.text
    )
    assert isinstance(action, Spawn) and action.overlay == {}


def test_no_remedies_holds_before_the_trainer_has_told_its_configuration() -> None:
    run = Run(remedies=False)
    run.sees(Started(now=1))
    _, action = run.dies("oom-kill", certain=True, remedies=(HALVE,), phase="start")
    assert isinstance(action, Spawn) and action.overlay == {}


# --- errors of the trainer itself -----------------------------------------------------------------


def test_a_python_error_gets_a_second_chance_and_no_third() -> None:
    run = Run()
    assert isinstance(spawn(run.starts().dies("python-error")), Spawn)
    (end,) = run.starts().dies("python-error")
    assert isinstance(end, EndWithError) and end.incident == "002" and run.is_over()


def test_another_python_error_is_another_chance_until_the_account_is_empty() -> None:
    run = Run(max_restarts=4)
    for step in range(4):
        spawn(run.starts().dies("python-error", step=step))
    assert isinstance(run.starts().dies("python-error", step=9)[-1], GiveUp)


@pytest.mark.parametrize("name", ["data-changed", "non-finite", "disk-full", "python-error"])
def test_what_a_restart_cannot_mend_ends_with_the_error_itself(name: str) -> None:
    run = Run().starts()
    (end,) = run.dies(name, retry=False, certain=True, remedies=(HALVE,))
    assert isinstance(end, EndWithError) and end.incident == "001"


def test_a_python_error_before_the_configuration_is_known_is_not_tried_again() -> None:
    run = Run()
    run.sees(Started(now=1))
    assert isinstance(run.dies("python-error", phase="start")[-1], EndWithError)


def test_a_python_error_without_restarts_is_the_runs_error() -> None:
    assert isinstance(Run(max_restarts=0).starts().dies("python-error")[-1], EndWithError)


@pytest.mark.parametrize("name", ["abort", "vanished", "hang", "unknown"])
def test_a_plugin_in_which_the_trainer_died_is_not_loaded_again(name: str) -> None:
    (end,) = Run().starts().dies(name, phase="start", plugin=IMPORT)
    assert isinstance(end, EndWithError) and end.plugin == IMPORT


def test_a_remedy_comes_before_the_blame_of_a_plugin() -> None:
    run = Run().starts(miner__isolation="none")
    (action,) = run.dies("omp-duplicate", certain=True, remedies=(ISOLATE,), plugin=IMPORT)
    assert isinstance(action, Spawn)


@pytest.mark.parametrize("name", ["killed", "oom-kill"])
def test_a_kill_from_outside_is_blamed_on_a_plugin_only_the_second_time(name: str) -> None:
    run = Run()
    assert isinstance(spawn(run.starts().dies(name, plugin=IMPORT)), Spawn)
    assert isinstance(run.starts().dies(name, plugin=IMPORT)[-1], EndWithError)


def test_a_crash_before_the_configuration_is_known_is_tried_again() -> None:
    run = Run()
    run.sees(Started(now=1))
    assert isinstance(spawn(run.dies("segfault", phase="start")), Spawn)


# --- hangs ----------------------------------------------------------------------------------------


def test_the_import_of_a_plugin_obeys_the_hang_limit_before_the_configuration_is_known() -> None:
    run = Run()
    run.sees(Started(now=0.0))
    run.sees(Limited(now=0.0, settings=Settings(hang_timeout_s=5)))
    run.beats("start", plugin=None)
    assert wake_at(run.state) == 600  # libraries may lie on a slow disk
    run.beats("start", after=1.0, plugin=IMPORT)
    assert wake_at(run.state) == 6
    run.waits()
    (kill,) = run.waits()
    assert isinstance(kill, Kill) and "importing the plugin miner.bad of the dist" in kill.text
    run = Run(hang_timeout_s=5).starts()
    run.beats("start", plugin=replace(IMPORT, brief=False))
    assert wake_at(run.state) == 600


def test_silence_beyond_the_limit_has_the_stacks_written_and_then_kills() -> None:
    run = Run(hang_timeout_s=60).starts()
    run.beats("mining", after=3.0, step=12)
    assert wake_at(run.state) == 63.0
    assert run.sees(Tick(now=62.9)) == ()
    assert run.waits() == (DumpStacks(),)
    assert wake_at(run.state) == 65.0
    assert run.sees(Tick(now=64.9)) == ()
    (kill,) = run.waits()
    assert kill == Kill(why="hang", text="no sign of life for 60 s in mining at step 12")
    assert isinstance(spawn(run.dies("hang")), Spawn)


def test_a_sign_of_life_after_the_stacks_comes_too_late() -> None:
    """SIGCONT, sent with the request for the stacks, wakes what was stopped."""
    run = Run(hang_timeout_s=60).starts()
    run.waits()
    assert run.beats("forward", after=1.0) == ()
    (kill,) = run.waits()
    assert isinstance(kill, Kill)


def test_an_end_within_the_grace_is_an_end() -> None:
    run = Run(hang_timeout_s=60).starts()
    run.waits()
    assert run.sees(Ended(now=61, exit_code=0)) == (Finish(),)


def test_a_phase_is_given_ten_minutes_until_it_is_known() -> None:
    run = Run().starts()
    for left in range(3):
        run.beats("forward", after=1.0)
        assert wake_at(run.state) == run.now + 600, f"left {left} times"
        run.beats("mining", after=9.0)
    run.beats("forward", after=1.0)
    assert wake_at(run.state) == run.now + 90
    run.beats("mining", after=1.0)
    run.beats("forward", after=1.0)
    run.beats("data", after=1.0)
    assert wake_at(run.state) == run.now + 600
    run.beats("mining", after=1.0)
    assert wake_at(run.state) == run.now + 60  # 10 x 1 s is too little to be sure


def test_what_is_known_of_pauses_survives_a_crash_but_not_a_remedy() -> None:
    run = Run().starts()
    for _ in range(4):
        run.beats("forward", after=1.0)
        run.beats("mining", after=1.0)
    run.dies()
    run.starts().beats("forward")
    assert wake_at(run.state) == run.now + 60
    run.dies("oom-kill", certain=True, remedies=(HALVE,))
    run.starts().beats("forward")
    assert wake_at(run.state) == run.now + 600


@pytest.mark.parametrize(("isolation", "limit"), [("process", 5.0), ("none", 600.0)])
def test_a_miner_within_the_trainer_may_be_silent_for_long(isolation: str, limit: float) -> None:
    run = Run(hang_timeout_s=5).starts(miner__isolation=isolation)
    run.beats("mining")
    assert wake_at(run.state) == limit
    run.beats("forward")
    assert wake_at(run.state) == 5.0


def test_a_start_is_given_ten_minutes_whatever_is_set() -> None:
    """The configuration of the trainer before is still in force while the next one starts."""
    run = Run(hang_timeout_s=5).starts()
    assert wake_at(run.state) == 600
    run.beats("forward", after=1.0)
    assert wake_at(run.state) == 6
    run.dies()
    run.starts()
    assert wake_at(run.state) == run.now + 600


def test_a_checkpoint_that_is_never_done_does_not_hide_behind_steps_that_go_on() -> None:
    run = Run().starts()
    for _ in range(31):
        run.beats("forward", after=10.0, saving_since=9.0)
    assert run.now > 309
    assert run.sees(Tick(now=run.now)) == (DumpStacks(),)
    (kill,) = run.waits()
    assert isinstance(kill, Kill) and "checkpoint that was started 300 s ago" in kill.text


def test_slow_checkpoints_are_given_ten_times_the_slowest() -> None:
    run = Run().starts()
    run.beats("forward", after=100.0, saving_since=100.0)
    run.beats("forward", after=100.0, saving_since=100.0)
    run.beats("forward", after=1.0)
    for _ in range(9):
        run.beats("forward", after=100.0, saving_since=201.0)
    assert run.sees(Tick(now=1200.0)) == ()
    assert wake_at(run.state) == 201 + 10 * 101


def test_a_suspended_tree_is_not_silent() -> None:
    run = Run(hang_timeout_s=60).starts()
    run.beats("forward", after=1.0, saving_since=1.0)
    run.sees(Suspended(now=1000.0, seconds=990.0))
    assert wake_at(run.state) == 1051.0
    run.beats("forward", after=1.0, saving_since=1.0)  # the record knows nothing of it
    assert wake_at(run.state) == 1051.0


def test_a_torn_record_from_the_future_does_not_put_the_deadline_off() -> None:
    run = Run(hang_timeout_s=60).starts()
    run.sees(Beat(now=1.0, at=1e9, step=1, phase="forward"))
    assert wake_at(run.state) == 61.0
    run.sees(Beat(now=2.0, at=2.0, step=1, phase="forward", saving_since=1e9))
    run.beats("forward", after=30.0, saving_since=1e9)
    assert wake_at(run.state) == 62.0


def test_a_process_that_survives_its_kill_is_spoken_of_once_and_never_doubled() -> None:
    run = Run(hang_timeout_s=60).starts()
    run.waits()
    run.waits()
    (told,) = run.waits()
    assert isinstance(told, Say) and "still exists" in told.text
    assert wake_at(run.state) is None and run.state.stage == "running"
    assert isinstance(spawn(run.dies("hang")), Spawn)


def test_a_state_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        State().stage = "over"  # type: ignore[misc]


def test_a_process_that_waits_for_others_ends_before_it_counts_as_hanging() -> None:
    trainer = Trainer(started_at=0.0, beat_at=0.0, phase="exchange")
    known = {"exchange": Pace(left=100, longest_gap_s=0.01)}
    flat = {"scale.exchange_timeout_s": 60.0}
    state = State(stage="running", trainer=trainer, paces=known, flat=flat)
    assert silence_limit_s(state, trainer) == 90.0
    assert silence_limit_s(replace(state, flat={}), trainer) == 60.0
