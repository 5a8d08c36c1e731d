"""SIGINT and SIGTERM: once, the run saves and ends; twice, it ends at once. Nothing is lost."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.kit import saboteur as sabotage
from tests.kit.fixtures.crashes import Start
from tests.kit.live_run import Ended, LiveRun, in_phase, saving, summary_of
from tests.kit.struck_run import EVERY, assert_undisturbed, incidents_of
from tests.kit.widely import CHAOS, wide

Resumable = Callable[..., None]
INT, TERM = signal.SIGINT, signal.SIGTERM
CODE = {INT: 130, TERM: 143}


@wide
def test_a_run_that_is_stopped_again_and_again_ends_with_the_same_weights(
    train: Start, command: Start, run: Path, undisturbed: str
) -> None:
    stops = [
        (TERM, saving(since=2 * EVERY)),
        (INT, in_phase("evaluate", since=3 * EVERY)),
    ]
    if CHAOS:
        stops.insert(1, (TERM, in_phase("mining")))
        stops.insert(2, (INT, in_phase("backward", since=EVERY)))
    live, steps = train(), 0
    for signum, where in stops:
        trainer, flight = live.hold(where)
        tree = live.tree()
        live.send(signum)
        os.kill(trainer, signal.SIGCONT)
        ended = live.wait()
        tree.gone_after()
        assert_stopped(ended, run, signum)
        assert steps <= flight.step <= summary_of(run)["steps"]
        steps = summary_of(run)["steps"]
        live = command(["resume", run, "--json"])
    assert live.wait().code == 0
    assert_undisturbed(run, undisturbed, restarts=0)


def assert_stopped(ended: Ended, run: Path, signum: int) -> None:
    """It was saved, says how to go on, and the last checkpoint is that of its last step."""
    assert ended.code == CODE[signal.Signals(signum)], ended.err
    summary = summary_of(run)
    assert summary["status"] == "stopped" and summary["exit_code"] == ended.code
    assert f"ttf resume {run}" in ended.err
    document = ended.json()
    assert document["error"]["class"] == "Stopped" and document["run_dir"] == str(run)
    assert (run / "checkpoints" / f"step-{summary['steps']:09d}").is_dir()


@pytest.mark.parametrize("signum", [pytest.param(INT, marks=wide), TERM])
def test_a_second_signal_ends_at_once_what_cannot_stop(
    train: Start, assert_resumable: Resumable, run: Path, tmp_path: Path, signum: signal.Signals
) -> None:
    """The trainer is in native code that holds the interpreter lock: it cannot save."""
    notes = tmp_path / "notes"
    live = train(env=sabotage.variable(sabotage.spec(notes, "forward", "children", step=25)))
    live.until((notes / "reached").exists, "the lock is held")
    tree = live.tree()
    stop_twice(live, signum)
    ended = live.wait()
    tree.gone_after()
    assert ended.code == CODE[signum]
    assert "at once" in ended.err and f"ttf resume {run}" in ended.err
    assert summary_of(run)["status"] == "stopped"
    assert_resumable()


def test_a_signal_ends_the_wait_for_a_restart(
    train: Start, command: Start, run: Path, undisturbed: str, tmp_path: Path
) -> None:
    exits = sabotage.spec(tmp_path / "notes", "start", "exit", times=99)
    live = train(env=sabotage.variable(exits))
    live.said("unchanged in 1 s")
    live.send(TERM)
    ended = live.wait()
    assert ended.code == CODE[TERM]
    summary = summary_of(run)
    assert summary["status"] == "stopped"
    assert summary["restarts"] == len(incidents_of(run)) >= 2
    if CHAOS:  # without the sabotage
        assert command(["resume", run, "--json"]).wait().code == 0
        assert_undisturbed(run, undisturbed, restarts=summary["restarts"])


def test_a_stop_while_a_plugin_hangs_at_import_ends_at_once_and_leaves_no_folder(
    train: Start, run: Path, tmp_path: Path
) -> None:
    notes = tmp_path / "notes"
    live = train(env=sabotage.variable(sabotage.spec(notes, "import", "deadlock")))
    live.until((notes / "reached").exists, "the import hangs")
    tree = live.tree()
    live.send(TERM)
    ended = live.wait()
    tree.gone_after()
    assert ended.code == CODE[TERM]
    assert not run.exists()
    assert "ttf resume" not in ended.err


@pytest.mark.parametrize("signum", [pytest.param(INT, marks=wide), TERM])
@wide
def test_whoever_asks_the_trainer_itself_to_end_gets_a_run_that_saved_and_ended(
    train: Start, assert_resumable: Resumable, run: Path, signum: signal.Signals
) -> None:
    live = train()
    trainer, _ = live.hold(in_phase("forward", since=EVERY))
    live.hit(trainer, signum)
    ended = live.wait()
    assert_stopped(ended, run, signum)
    assert "The signal came to the trainer alone" in ended.err
    assert_resumable()


def stop_twice(live: LiveRun, signum: int) -> None:
    """Signals that come too fast are one: the second waits until the first was heard."""
    live.send(signum)
    live.until(lambda: "second signal ends it at once" in live.err, "the first was heard")
    live.send(signum)
