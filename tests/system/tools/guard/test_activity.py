"""What counts as a sign of life of a process tree."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.kit.guarded_command import PYTHON

from ttf.tools.guard.activity import Activity

pytestmark = [pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")]
LAUNCHER = r"""
import subprocess, sys
for line in sys.stdin:
    if line == "start\n":
        worker = subprocess.Popen(["sleep", "600"])
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
