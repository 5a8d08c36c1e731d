"""What a person sees of a run that dies and goes on, and what the keys of a terminal do to it."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.conftest import wait_until
from tests.kit import saboteur as sabotage
from tests.kit.gate import Gate
from tests.kit.live_run import Ended, in_phase, summary_of
from tests.kit.processes import alive, is_trainer
from tests.kit.struck_run import World, assert_undisturbed
from tests.kit.terminal import GO_ON, HOLD, INTERRUPT, SUSPEND, InTerminal, Tmux
from tests.kit.widely import wide

from ttf.process.lifeline import is_stopped

Resume = Callable[[], Ended]
Resumable = Callable[..., None]


@pytest.fixture
def in_terminal(world: World, run: Path) -> Iterator[Callable[..., InTerminal]]:
    started: list[InTerminal] = []

    def start(*sets: str, env: dict[str, str] | None = None) -> InTerminal:
        words = [word for word in world.config(run, *sets) if word != "--json"]
        started.append(InTerminal(world, words, run, env=env))
        return started[-1]

    yield start
    for live in started:
        live.close()


@pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux draws the screen; it is not here")
@pytest.mark.parametrize("columns", [60, pytest.param(130, marks=wide)])
def test_the_screen_is_whole_after_a_death(
    world: World, run: Path, undisturbed: str, tmp_path: Path, columns: int
) -> None:
    tmux, gate = Tmux(tmp_path, columns, 45), Gate(run)
    gate.shut(in_phase("forward", since=41))
    try:
        tmux.start(world, [word for word in world.config(run) if word != "--json"], gate)
        wait_until(gate.reached, 100)
        (trainer,) = [pid for pid in world.living() if is_trainer(pid)]
        os.kill(trainer, signal.SIGSEGV)
        os.kill(trainer, signal.SIGCONT)
        wait_until(lambda: any("PROMPT" in line for line in tmux.screen()), 100)
        lines, shown = tmux.screen(), tmux.cursor_is_shown()
    finally:
        tmux.close()
    print("\n".join(lines))
    assert_undisturbed(run, undisturbed, restarts=1)
    text = " ".join("".join(line.ljust(columns) for line in lines).split())
    assert "!! Incident 001, segfault in " in text
    assert "resumed at step" in text and "code 0 PROMPT" in text
    assert shown and "\x1b" not in text and "[?25" not in text and "[K" not in text
    # A live line that is wider than the screen leaves a piece of itself at every draw.
    assert sum(line.startswith("  train") for line in lines) <= 2 + 4
    assert len({line for line in lines if line.startswith("status")}) == 1


def test_the_suspend_key_holds_the_whole_run_and_the_interrupt_key_ends_it(
    in_terminal: Callable[..., InTerminal], assert_resumable: Resumable, run: Path, tmp_path: Path
) -> None:
    live, go = waiting(in_terminal, tmp_path / "notes")
    held = set(live.tree().pids)
    live.press(SUSPEND)
    live.until(lambda: is_stopped(live.pid), "the supervisor is stopped")
    # One that is in the kernel, for a disk, stops when it comes out.
    live.until(lambda: all(is_stopped(pid) for pid in held if alive(pid)), "all are stopped")
    time.sleep(1.5)  # longer than a child stays with a supervisor that is stopped
    assert {pid for pid in held if alive(pid)} == held
    live.send(signal.SIGCONT)
    live.press(INTERRUPT)
    live.said("SIGINT: the run saves a checkpoint and ends after its next step")
    go.touch()
    assert live.process.wait(60) == 130
    assert summary_of(run)["incidents"] == [] and summary_of(run)["restarts"] == 0
    assert_resumable()


def test_nobody_outlives_a_suspended_run_whose_supervisor_is_killed(
    in_terminal: Callable[..., InTerminal], assert_resumable: Resumable, tmp_path: Path
) -> None:
    live, _ = waiting(in_terminal, tmp_path / "notes")
    tree = live.tree()
    live.press(SUSPEND)
    live.until(lambda: is_stopped(live.pid), "the supervisor is stopped")
    live.until(lambda: all(is_stopped(pid) for pid in tree.pids if alive(pid)), "all are stopped")
    live.send(signal.SIGKILL)
    live.process.wait(60)
    tree.gone_after()
    assert_resumable()


def test_a_terminal_that_goes_away_stops_the_run_and_nothing_is_lost(
    in_terminal: Callable[..., InTerminal], assert_resumable: Resumable, run: Path, tmp_path: Path
) -> None:
    live, go = waiting(in_terminal, tmp_path / "notes")
    live.hang_up()
    go.touch()
    live.process.wait(60)
    assert summary_of(run)["status"] == "stopped" and "SIGHUP" in summary_of(run)["problem"]
    assert_resumable()


def waiting(in_terminal: Callable[..., InTerminal], notes: Path) -> tuple[InTerminal, Path]:
    """A run that waits at a step, and the file that lets it go on."""
    waits = sabotage.spec(notes, "forward", "wait", step=25)
    live = in_terminal(env=sabotage.variable(waits))
    live.until((notes / "reached").exists, "it waits")
    return live, notes / "go"


@wide
@pytest.mark.parametrize(
    ("key", "back"), [(SUSPEND, b""), (HOLD, GO_ON)], ids=["suspended", "held by ctrl-s"]
)
def test_a_person_who_lets_it_wait_longer_than_a_hang_is_no_hang(
    in_terminal: Callable[..., InTerminal],
    run: Path,
    undisturbed: str,
    key: bytes,
    back: bytes,
) -> None:
    live = in_terminal("supervise.hang_timeout_s=8")
    live.trains()
    live.press(key)
    time.sleep(14)
    if back:
        live.press(back)
    else:
        live.send(signal.SIGCONT)
    assert live.process.wait(60) == 0
    assert_undisturbed(run, undisturbed, restarts=0)
    assert summary_of(run)["incidents"] == []
