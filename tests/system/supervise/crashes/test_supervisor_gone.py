"""The supervisor is killed or stopped: what it leaves goes, and `ttf resume` ends the run."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.kit import saboteur as sabotage
from tests.kit.fixtures.crashes import Start
from tests.kit.live_run import LiveRun, Tree, in_phase, saving, summary_of
from tests.kit.processes import adopting, alive
from tests.kit.struck_run import EVERY, assert_undisturbed
from tests.kit.widely import CHAOS, wide

from ttf.errors import ExitCode
from ttf.process.lifeline import PARENT_STOPPED

Resumable = Callable[..., None]
STOP, CONT, KILL = signal.SIGSTOP, signal.SIGCONT, signal.SIGKILL


def test_a_supervisor_killed_in_phase_after_phase_leaves_nobody_and_loses_nothing(
    train: Start, command: Start, run: Path, undisturbed: str, tmp_path: Path
) -> None:
    """Each time `ttf resume` is called at once, while the orphans may still be there."""
    live = train()
    tree = killed(live, live.trainer())  # before there is a run.toml: the command again
    live = train()
    tree.gone_after()
    phases = [
        in_phase("mining"),
        saving(since=EVERY),
        in_phase("end"),
    ]
    if CHAOS:
        phases.insert(2, in_phase("forward", since=2 * EVERY + 1))
        phases.insert(3, in_phase("evaluate", since=3 * EVERY))
    for where in phases:
        trainer, _ = live.hold(where)
        tree = killed(live, trainer)
        live = command(["resume", run, "--json"])
        tree.gone_after()
    ended = live.wait()
    assert ended.code == 0, ended.err
    assert_undisturbed(run, undisturbed, restarts=0)


def killed(live: LiveRun, trainer: int) -> Tree:
    """The trainer goes on at the moment its supervisor goes."""
    tree = live.tree()
    os.kill(trainer, CONT)
    live.send(KILL)
    live.process.wait()
    return tree


@pytest.mark.parametrize("place", ["forward", "search"])
def test_nobody_outlives_a_supervisor_that_is_killed_while_native_code_holds_the_lock(
    train: Start, assert_resumable: Resumable, tmp_path: Path, place: str
) -> None:
    """In the trainer, in the miner's process; with children of it in sessions of their own."""
    notes = tmp_path / "notes"
    holds = sabotage.spec(notes, place, "children", step=EVERY + 1 if place == "forward" else 0)
    live = train(env=sabotage.variable(holds))
    live.until((notes / "reached").exists, "the lock is held")
    tree = live.kill()
    children = {int(number) for number in (notes / "children").read_text().split()}
    assert children < tree.pids
    tree.gone_after()
    assert_resumable()


@wide
def test_what_a_dying_trainer_started_is_ended_before_the_next_one_starts_daemons_included(
    train: Start, run: Path, undisturbed: str, tmp_path: Path
) -> None:
    notes = tmp_path / "notes"
    hides = sabotage.spec(notes, "forward", "daemon", step=5)
    looks = sabotage.spec(notes, "forward", "look-for-daemon", step=6)
    with adopting() as reaped:
        live = train(env=sabotage.variable(hides, looks))
        live.until((notes / "reached").exists, "there is a daemon")
        daemon = int((notes / "daemon").read_text())
        children = {int(number) for number in (notes / "children").read_text().split()}
        tree = live.tree()
        assert children < tree.pids and alive(daemon)
        live.hit(live.trainer(), signal.SIGSEGV)
        tree.gone_after()
        assert live.wait().code == 0
        assert reaped() == []
    assert (notes / "seen").read_text() == "gone"
    assert_undisturbed(run, undisturbed, restarts=1)


@wide
def test_a_supervisor_that_is_stopped_loses_its_children_and_starts_others_when_it_goes_on(
    train: Start, command: Start, run: Path, undisturbed: str, tmp_path: Path
) -> None:
    notes = tmp_path / "notes"
    live = train(env=sabotage.variable(sabotage.spec(notes, "forward", "wait", step=EVERY + 5)))
    live.until((notes / "reached").exists, "it waits")
    tree = live.tree()
    live.send(STOP)
    tree.gone_after()
    beside = command(["resume", run]).wait()
    assert beside.code == ExitCode.IN_USE
    assert f"(process {live.pid}, which is paused: kill -CONT {live.pid}" in beside.err
    live.send(CONT)
    ended = live.wait()
    assert ended.code == 0, ended.err
    assert_undisturbed(run, undisturbed, restarts=1)
    (incident,) = summary_of(run)["incidents"]
    assert incident["class"] == "killed"
    assert f'"exit_code": {PARENT_STOPPED}' in (run / "incidents/001/incident.json").read_text()


def test_a_supervisor_that_is_stopped_while_native_code_holds_the_lock_and_then_killed(
    train: Start, assert_resumable: Resumable, tmp_path: Path
) -> None:
    notes = tmp_path / "notes"
    live = train(env=sabotage.variable(sabotage.spec(notes, "backward", "children", step=25)))
    live.until((notes / "reached").exists, "the lock is held")
    tree = live.tree()
    live.send(STOP)
    tree.gone_after()
    assert alive(live.pid)
    live.send(KILL)
    live.process.wait()
    assert_resumable()
