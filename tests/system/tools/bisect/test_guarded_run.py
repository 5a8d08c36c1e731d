"""The end of one run of a command: what it says, and when it says nothing."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ttf.tools.studies.guarded_run import end_of_command, start_guarded
from ttf.tools.studies.one_run import StartedRun


def test_a_guard_that_could_not_work_says_nothing_about_its_command(tmp_path: Path) -> None:
    run = StartedRun(["guard", "--no-such-option"], tmp_path / "runs/001", command=["true"])
    run.wait()
    end = end_of_command(run)
    assert end.result == "void" and "ttf guard ended with exit code 2" in end.how


@pytest.mark.parametrize(
    ("code", "result", "how"),
    [
        ("import os; os.abort()", "crash", "SIGABRT"),
        ("raise ValueError('no rows')", "crash", "exit code 1: ValueError: no rows"),
        (
            "import argparse; argparse.ArgumentParser().parse_args(['--x'])",
            "invalid",
            "exit code 2",
        ),
        ("raise SystemExit(2)", "crash", "exit code 2"),
        ("print('well')", "clean", ""),
    ],
    ids=["abort", "exception", "refused", "own-code", "well"],
)
def test_an_end_is_a_crash_a_refusal_or_well(
    code: str, result: str, how: str, tmp_path: Path
) -> None:
    words = [sys.executable, "-c", code]
    run = start_guarded(words, {"A": "1"}, tmp_path / "runs/001", cwd=str(tmp_path))
    run.wait()
    end = end_of_command(run)
    assert end.result == result
    assert end.how.startswith(how) and bool(end.how) == bool(how)
