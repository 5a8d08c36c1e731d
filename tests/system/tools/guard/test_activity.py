"""What counts as a sign of life of a process tree."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.kit.guarded_command import PYTHON

from ttf.process.activity import held
from ttf.tools.guard.activity import Activity

pytestmark = [pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")]
LAUNCHER = r"""
import os, subprocess, sys
for line in sys.stdin:
    if line == "start\n":
        # Popen returns before the new program has read its libraries: that would be a sign of life.
        worker = subprocess.Popen(["sh", "-c", "kill -STOP $$"])
        os.waitpid(worker.pid, os.WUNTRACED)  # until it has stopped
        print(worker.pid, flush=True)
    elif line == "stop\n":
        worker.kill()
        worker.wait()
        print("stopped", flush=True)
    else:
        print("said", flush=True)
"""


class Launcher:
    """A program with the name of torchrun that does what it is asked."""

    def __init__(self, folder: Path) -> None:
        (folder / "torchrun").write_text(LAUNCHER)
        words = [PYTHON, str(folder / "torchrun")]
        self.process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self, what: str) -> str:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(f"{what}\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()


@pytest.fixture
def launcher(tmp_path: Path) -> Iterator[Launcher]:
    made = Launcher(tmp_path)
    with made.process:
        yield made


def test_a_launcher_shows_life_itself_only_until_it_has_started_a_worker(
    launcher: Launcher,
) -> None:
    """Loading torchrun takes longer than a short --hang-timeout on a busy machine."""
    activity, own = Activity(), launcher.process.pid
    assert launcher.ask("talk") == "said"
    activity.look([own], 0)
    loading = activity.seen_at
    launcher.ask("talk")
    activity.look([own], 0)
    assert activity.seen_at > loading
    both = [own, int(launcher.ask("start"))]
    activity.look(both, 0)
    started = activity.seen_at
    launcher.ask("talk")
    activity.look(both, 0)
    assert activity.seen_at == started
    launcher.ask("stop")


TRACED = """
import ctypes, os, signal
ctypes.CDLL(None).ptrace(0, 0, 0, 0)  # PTRACE_TRACEME: the parent is its debugger
os.kill(os.getpid(), signal.SIGSTOP)
"""


def test_a_process_that_a_debugger_stopped_is_said_to_be_held_by_it() -> None:
    with subprocess.Popen([PYTHON, "-c", TRACED]) as child:
        try:
            os.waitpid(child.pid, os.WUNTRACED)  # until it has stopped
            said = Activity().meanwhile([child.pid])
        finally:
            child.kill()
    assert f"stopped by a debugger (process {os.getpid()}, " in said


@pytest.mark.parametrize(
    ("line", "file", "text"),
    [
        ("6:freezer:/job", "freezer/job/freezer.state", "FROZEN\n"),
        ("0::/job", "job/cgroup.events", "populated 1\nfrozen 1\n"),
    ],
)
def test_a_frozen_control_group_is_told(line: str, file: str, text: str, tmp_path: Path) -> None:
    proc, state = tmp_path / "proc/7", tmp_path / "sys/fs/cgroup" / file
    for folder in (proc, state.parent):
        folder.mkdir(parents=True)
    (proc / "cgroup").write_text(f"4:memory:/other\n{line}\n")
    state.write_text(text)
    assert "frozen together with its control group /job" in held(7, tmp_path)
    state.write_text(text.replace("FROZEN", "THAWED").replace("frozen 1", "frozen 0"))
    assert held(7, tmp_path) == ""
