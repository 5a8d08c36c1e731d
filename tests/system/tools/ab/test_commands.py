"""`ttf ab --command`: real scripts of plain Python, compared by deaths, time and what they print."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

_DYING = "import os; os.abort()"
_WELL = "print('loss: 9'); print('loss: 0.25')"


def ab(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ttf", "ab", "--json", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.fixture
def scripts(tmp_path: Path) -> Path:
    (tmp_path / "a.py").write_text(_DYING)
    (tmp_path / "b.py").write_text(_WELL)
    return tmp_path


def test_commands_are_compared_by_deaths_time_and_the_last_number_they_print(
    scripts: Path,
) -> None:
    arms = [f"{sys.executable} a.py", f"{sys.executable} b.py"]
    chosen = [word for arm in arms for word in ("--command", arm)]
    made = ab(scripts, *chosen, "--metric", "loss: ([0-9.]+)", "--repeats", "4", "--out", "study")
    found = json.loads(made.stdout)
    dying, well = found["arms"]
    assert (dying["crashes"], well["crashes"]) == (4, 0)
    assert dying["classes"] == {"abort": 4}
    assert well["metrics"]["metric"] == 0.25 and well["metrics"]["seconds"] > 0
    assert "is more stable" in found["verdict"]
    assert {"report.html", "report.md"} <= {path.name for path in (scripts / "study").iterdir()}
    more = ab(scripts, "--resume", "study", "--repeats", "5")
    assert [arm["runs"] for arm in json.loads(more.stdout)["arms"]] == [5, 5]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--command", "true"], "at least two commands"),
        (["--command", "true", "--command", "true"], "given twice"),
        (["--command", "true", "--command", "'"], "Quote the whole command"),
        (["--command", "true", "--command", "false", "--metric", "loss"], "one must hold"),
        (["--command", "true", "--command", "false", "--steps", "3"], "only for configurations"),
        (["a.toml", "b.toml", "--metric", "(x)"], "only for commands"),
        (["--command", "nowhere", "--command", "nobody"], "does not start"),
    ],
)
def test_what_cannot_be_compared_is_refused(words: list[str], why: str, tmp_path: Path) -> None:
    refused = ab(tmp_path, *words)
    assert refused.returncode == 2
    error = json.loads(refused.stdout)["error"]
    assert why in " ".join([error["message"], *error.get("problems", ())])
