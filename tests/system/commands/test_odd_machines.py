"""Machines that lack what others have: it works, or one line says what is missing."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from tests.kit.fixtures.trained import TRAINS

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def ttf(place: Path) -> Run:
    """`ttf` beside the finished run; `before`: a line of shell that its process begins with."""

    def run(
        words: Sequence[str], before: str = "", prefix: Sequence[str] = ()
    ) -> subprocess.CompletedProcess[str]:
        script = f'{before}\nexec "$@"'
        command = [*prefix, "sh", "-c", script, "sh", sys.executable, "-m", "ttf", *words]
        return subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=120, cwd=place
        )

    return run


@pytest.fixture
def without_proc(ttf: Run) -> Run:
    prefix = ["unshare", "--mount", "--map-root-user"]
    hide = "mount -t tmpfs none /proc || exit 99"
    try:
        probe = subprocess.run([*prefix, "sh", "-c", hide], check=False, capture_output=True)
    except FileNotFoundError:
        pytest.skip("this system has no unshare")
    if probe.returncode:
        pytest.skip(f"no mount namespace of our own here: {probe.stderr.decode().strip()}")
    return lambda words, before="": ttf(words, f"{hide}\n{before}", prefix)


def test_a_run_without_proc_survives_a_death_and_says_what_is_missing(
    without_proc: Run, place: Path
) -> None:
    words = [*TRAINS, "new", "--set", "checkpoint.every_steps=1"]
    done = without_proc(words, "export TTF_FAILPOINT=checkpoint.write:1:kill")
    assert done.returncode == 0, done.stderr
    assert "This system has no /proc" in done.stderr
    assert "Incident 001, killed" in done.stderr
    assert (place / "new" / "summary.json").exists()


@pytest.mark.parametrize(
    "words",
    [
        ["monitor", "run", "--once"],
        ["guard", "--out", "guarded", "--", "true"],
        ["doctor", "--check", "memory", "--check", "ulimits"],
    ],
    ids=lambda words: words[0],
)
def test_commands_work_without_proc(without_proc: Run, words: list[str]) -> None:
    done = without_proc(words)
    assert done.returncode == 0, done.stderr
    if words[0] != "monitor":
        assert "This system has no /proc" in done.stderr + done.stdout


@pytest.mark.parametrize("date", ["1969-06-01 00:00:00", "2040-01-01 00:00:00"])
def test_a_run_survives_a_death_whatever_the_clock_says(ttf: Run, place: Path, date: str) -> None:
    if shutil.which("faketime") is None:
        pytest.skip("faketime is not installed")
    words = [*TRAINS, "new", "--set", "checkpoint.every_steps=1"]
    strange = ["faketime", date]
    done = ttf(words, "export TTF_FAILPOINT=checkpoint.write:1:kill", strange)
    assert done.returncode == 0, done.stderr
    assert "Incident 001, killed" in done.stderr
    assert (place / "new" / "report.html").exists()
    for words in (["explain", "new"], ["monitor", "new", "--once"]):
        done = ttf(words, prefix=strange)
        assert done.returncode == 0, done.stderr
        assert date[:10] in done.stdout or words[0] == "monitor"
