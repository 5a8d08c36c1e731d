"""Studies of anybody's command: real scripts that really die, in plain Python."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.kit.planted_commands import ENVIRONMENT, TEN, Planted, vary
from tests.kit.widely import wide

_TTF = [sys.executable, "-m", "ttf"]


def bisect(folder: Path, *words: str, **more: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*_TTF, "bisect", "--json", *words],
        cwd=folder,
        env={**os.environ, **ENVIRONMENT},
        capture_output=True,
        text=True,
        check=False,
        **more,
    )


def study_words(planted: Planted, folder: Path) -> list[str]:
    command = planted.write(folder)
    chosen = [word for text in vary(folder) for word in ("--vary", text)]
    return ["--command", *chosen, "--out", "study", "--", *command]


@pytest.mark.parametrize(
    "name",
    [
        # Also found in tests/system/packages/test_crash_side.py.
        pytest.param("a variable, always", marks=wide),
        "an interpreter, always",
    ],
)
def test_the_planted_cause_of_a_command_is_named_within_the_bound(
    name: str, tmp_path: Path
) -> None:
    planted = TEN[name]
    found = json.loads(bisect(tmp_path, *study_words(planted, tmp_path)).stdout)
    (answer,) = planted.answers
    assert found["verdict"] == "culprit"
    assert {found["culprit"].partition("/")[0].rstrip(":")} == set(answer)
    assert found["runs_total"] <= 12 < found["most_runs"]
    assert list(found["advice"]) == sorted(answer)


def test_a_killed_study_of_a_command_goes_on_where_it_was(tmp_path: Path) -> None:
    words = study_words(TEN["a flag, always"], tmp_path)
    with subprocess.Popen(
        [*_TTF, "bisect", *words],
        cwd=tmp_path,
        env={**os.environ, **ENVIRONMENT},
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if line.startswith("   2"):
                break
        process.send_signal(signal.SIGKILL)
        process.stderr.read()
    journal = (tmp_path / "study/bisect.jsonl").read_text().splitlines()
    found = json.loads(bisect(tmp_path, "--resume", "study").stdout)
    assert found["culprit"] == "flag:--accum=1"
    assert (tmp_path / "study/bisect.jsonl").read_text().splitlines()[: len(journal)] == journal


def test_a_change_that_breaks_the_command_in_another_way_clears_nothing(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "import os, sys\n"
        "if os.environ.get('MODE') == 'other': raise ImportError('no such library')\n"
        "if '--amp' in sys.argv: os.abort()\n"
    )
    chosen = ["--vary", "env:MODE=other", "--vary", "flag:--amp"]
    words = ["--command", *chosen, "--", sys.executable, "train.py", "--amp"]
    found = json.loads(bisect(tmp_path, *words).stdout)
    assert found["culprit"] == "flag:--amp"
    states = {factor["name"]: factor["state"] for factor in found["factors"]}
    assert states["env:MODE=other"] != "cleared"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--command", "python", "train.py", "--accum", "4"], "must come after --"),
        (["--command"], "No command was given"),
        (["--command", "--vary", "env:A=1", "--", "nowhere"], "does not start"),
        (["--command", "--vary", "env:A=1", "--", sys.executable, "no.py"], "can't open file"),
        (["--command", "--steps", "3", "--", "true"], "only for a RUN.toml"),
        (["--vary", "env:A=1", "run.toml"], "only for a command"),
        (["python", "train.py"], "is not one configuration"),
    ],
)
def test_what_cannot_be_a_study_of_a_command_is_refused(
    words: list[str], why: str, tmp_path: Path
) -> None:
    refused = bisect(tmp_path, *words)
    assert refused.returncode == 2
    assert why in json.loads(refused.stdout)["error"]["message"]


def test_a_command_that_never_dies_is_ended_in_time_and_is_healthy_so_far(tmp_path: Path) -> None:
    limits = ["--run-limit", "1s", "--max-runs", "1"]
    sleeper = ["--", sys.executable, "-c", "import time; time.sleep(600)"]
    made = bisect(tmp_path, "--command", "--vary", "env:A=1", *limits, *sleeper)
    assert json.loads(made.stdout)["baseline"] == {"runs": 1, "crashes": 0}


def test_neither_torch_nor_numpy_is_loaded_for_a_study_of_a_command(tmp_path: Path) -> None:
    program = (
        "import sys, ttf.cli\n"
        "try: ttf.cli.main(sys.argv[1:])\n"
        "finally: assert not {'torch', 'numpy', 'pydantic'} & sys.modules.keys()\n"
    )
    words = ["bisect", "--command", "--max-runs", "1", "--vary", "env:A=1", "--", "true"]
    made = subprocess.run(
        [sys.executable, "-c", program, *words], cwd=tmp_path, capture_output=True, check=False
    )
    assert made.returncode == 0, made.stderr
