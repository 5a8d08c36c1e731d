"""The trainer stands still: its stacks are kept, it is killed, the run goes on."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.kit import saboteur as sabotage
from tests.kit.fixtures.crashes import Start
from tests.kit.fixtures.frozen import Freeze
from tests.kit.live_run import Ended, in_phase, saving, summary_of
from tests.kit.processes import alive
from tests.kit.struck_run import EVERY, STEPS, assert_undisturbed, incidents_of
from tests.kit.widely import wide

from ttf.errors import ExitCode

TIMEOUT_S = 12.0
"""Loading torch gives no sign of life, and two cores may be shared by many."""
SET = f"supervise.hang_timeout_s={TIMEOUT_S}"


HOLDS_THE_INTERPRETER = ("hold", "hold_the_interpreter")
NEVER_GETS_A_LOCK = ("deadlock", "never_get_the_lock")
"""What the plugin does, and the line of its stack. An import that waits for a lock: test_deaths.py."""


@pytest.mark.parametrize(
    ("act", "line"), [HOLDS_THE_INTERPRETER, pytest.param(*NEVER_GETS_A_LOCK, marks=wide)]
)
def test_whatever_holds_a_trainer_up_is_noticed_and_ended(
    train: Start, run: Path, undisturbed: str, tmp_path: Path, act: str, line: str
) -> None:
    """Its own code, and then a stop from outside while it writes a checkpoint."""
    hangs = sabotage.spec(tmp_path / "notes", "forward", act, step=2 * EVERY + 1)
    live = train(SET, env=sabotage.variable(hangs))
    stopped, there = live.hold(saving(since=4 * EVERY))
    live.until(lambda: live.trainer_after(stopped), "another trainer is there")
    ended = live.wait()
    assert ended.code == 0, ended.err
    # Who was stopped is continued to write its stacks, and trains on for that moment.
    assert_undisturbed(run, undisturbed, restarts=2, lost=STEPS)
    inside, outside = incidents_of(run)
    assert (inside["class"], inside["phase"], outside["class"]) == ("hang", "forward", "hang")
    assert inside["lost_steps"] <= EVERY + 1 and outside["step"] >= there.step
    assert line in stacks(run, 1)
    assert "Thread 0x" in stacks(run, 2)
    for incident in (inside, outside):
        assert f"{TIMEOUT_S:.0f} s" in incident["explanation"]
    assert "paused during this time by a SIGSTOP signal" in outside["explanation"]


@wide
def test_a_checkpoint_that_is_never_written_does_not_hide_behind_the_steps_that_go_on(
    train: Start, run: Path, undisturbed: str
) -> None:
    live = train(SET, env={"TTF_FAILPOINT": "checkpoint.fsync:4:sleep", **sabotage.HURRIES})
    assert live.wait().code == 0
    assert_undisturbed(run, undisturbed, restarts=1, lost=STEPS)
    (incident,) = incidents_of(run)
    assert incident["class"] == "hang" and "fsync" in stacks(run, 1)


@wide
def test_a_trainer_that_the_kernel_holds_cannot_hold_its_supervisor(
    train: Start, run: Path, frozen: Freeze, resume: Callable[[], Ended]
) -> None:
    """In uninterruptible sleep no signal ends it; a second one to the supervisor ends that."""
    live = train()
    trainer, _ = live.hold(in_phase("forward", since=EVERY + 1))
    frozen(trainer)
    live.send(signal.SIGINT)
    live.until(lambda: "second signal" in live.err, "the first was heard")
    live.send(signal.SIGINT)
    ended = live.wait()
    assert ended.code == 130 and summary_of(run)["status"] == "stopped"
    assert alive(trainer)
    refused = resume()
    assert refused.code == ExitCode.IN_USE and "although its supervisor has ended" in refused.err


@wide
def test_a_trainer_that_the_kernel_holds_is_named_and_the_run_goes_on_when_it_is_gone(
    train: Start, run: Path, undisturbed: str, frozen: Freeze
) -> None:
    live = train(SET)
    trainer, _ = live.hold(in_phase("forward", since=EVERY + 1))
    thaw = frozen(trainer)
    live.until(lambda: incidents_of(run), "it is named")
    live.until(lambda: f"Process {trainer} was killed" in live.err, "it is waited for")
    assert alive(trainer)
    thaw()
    assert live.wait().code == 0
    assert_undisturbed(run, undisturbed, restarts=1, lost=STEPS)
    assert [incident["class"] for incident in incidents_of(run)] == ["hang"]


def stacks(run: Path, number: int) -> str:
    return (run / "incidents" / f"{number:03d}" / "faulthandler.txt").read_text()
