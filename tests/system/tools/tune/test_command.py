"""`ttf tune` in processes of its own: killed in the middle of a trial and of the last run."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.kit.planted_training import Place, build
from tests.kit.widely import wide

import ttf
from ttf.tools.tune import search
from ttf.tools.tune.settings import best_toml
from ttf.tools.tune.study import TuneStudy

if TYPE_CHECKING:
    from tests.conftest import Invoke

WORDS = (
    *("--steps", "4", "--trials", "2", "--out", "study"),
    *("--set", "train.accumulate=1", "--set", "loss.memory_bank=0", "--set", "device.threads=1"),
    *("--set", "evaluate.above_chance=false"),
)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """Whoever still lives after the test is ended, and fails it."""
    made = build(tmp_path, tmp_path / "home", "tune")
    try:
        yield made
    finally:
        _wait_until_empty(made)
        left = made.living()
        for line in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(line.split()[0]), signal.SIGKILL)
    assert not left, f"left behind: {left}"


def _wait_until_empty(place: Place) -> None:
    ends_at = time.monotonic() + 30
    while place.living() and time.monotonic() < ends_at:
        time.sleep(0.05)


def _killed_when_there_is(place: Place, path: Path) -> None:
    process = place.start(place.toml, *WORDS)
    while not path.exists():
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    _wait_until_empty(place)
    assert not place.living(), "what it had started went with it"


def _journal(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "trials.jsonl").read_text().splitlines()]


@wide  # and `python -m chaos --only tune-death`
def test_a_study_that_is_killed_loses_no_finished_trial_and_runs_none_twice(
    place: Place, invoke: Invoke
) -> None:
    folder = place.root / "study"
    _killed_when_there_is(place, folder / "runs" / "002" / "flight.bin")
    first = _journal(folder)
    assert [line["number"] for line in first] == [1]
    assert json.loads((folder / "clock.json").read_text())["used_s"] > 0

    _killed_when_there_is(place, folder / "best" / "flight.bin")
    trials = _journal(folder)
    assert trials[0] == first[0]
    assert [line["number"] for line in trials] == [1, 2]
    chosen = (folder / "best.toml").read_bytes()

    code, document, err = place.study("--resume", "study")
    assert code == 0, err
    assert "Already done: 2 trials." in err
    assert _journal(folder) == trials
    assert (folder / "best.toml").read_bytes() == chosen
    _as_an_undisturbed_study_of_these_trials(TuneStudy.read(folder))

    assert document["ended"] == "done"
    assert document["run"]["status"] == "finished"
    summary = json.loads((folder / "best" / "summary.json").read_text())
    assert document["run"]["metrics"] == summary["metrics"]
    assert {path.name for path in folder.iterdir()} >= {"report.html", "result.json", "best.toml"}
    assert not (folder / "best.out").exists() and not (folder / "best.err").exists()
    last = tomllib.loads((folder / "best" / "run.toml").read_text())
    assert last["data"]["hold_out"] == 0
    tuned = ttf.tune(resume=folder)  # Nothing is left to do: it only reads.
    assert _journal(folder) == trials
    assert tuned.config == folder / "best.toml"
    assert tuned.run == folder / "best"
    assert tuned.metrics == summary["metrics"]
    page = folder / "report.html"
    page.unlink()
    assert invoke(["report", str(folder)]).code == 0
    assert page.is_file()


def _as_an_undisturbed_study_of_these_trials(study: TuneStudy) -> None:
    """The journal decides what is tried and what wins: each trial is the one that the trials before
    it ask for."""
    done = study.counted
    for place, trial in enumerate(done[1:], start=1):
        assert trial.point == search.next_point(study.setup, done[:place], trial.number)
    best = study.best
    assert best is not None
    text = best_toml(study.setup, best.number, best.point, [])
    assert study.best_toml.read_text().endswith(text)


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (("nowhere.toml",), 2, "nowhere.toml"),
        (("--resume", "nowhere"), 3, "no study of ttf tune"),
        (("--resume", "nowhere", "--lr", "1"), 2, "cannot be combined with --lr"),
        (("--budget", "soon"), 2, "10m"),
    ],
    ids=["no file", "no study", "both", "budget"],
)
def test_wrong_words_are_answered_with_what_to_do(
    tmp_path: Path,
    invoke: Invoke,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    code: int,
    text: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    ended = invoke(["tune", *words])
    assert ended.code == code and text in ended.err
    assert not (tmp_path / "runs").exists()


def test_a_budget_that_is_too_small_says_what_is_needed(place: Place) -> None:
    code, document, err = place.study(place.toml, *WORDS, "--budget", "2s")
    assert code == 2
    assert "too small" in err and "--budget 1m" in err
    assert document["error"]["class"] == "ConfigError"
    assert not (place.root / "study").exists()


def test_a_first_trial_that_takes_too_long_says_how_to_continue_with_more_time(
    place: Place,
) -> None:
    """A tenth of seven seconds, in which no run can start, and for which none was predicted."""
    code, _, err = place.study(place.toml, *WORDS, "--budget", "7s")
    assert code == 2, err
    assert "did not end as a trial" in err and "ttf tune --resume study --budget" in err
    study = TuneStudy.read(place.root / "study")
    assert [trial.outcome for trial in study.runs] == ["cut"]
    assert not study.counted and study.best is None


def test_the_command_loads_optuna_only_when_it_searches() -> None:
    words = "import sys, ttf, ttf.cli, ttf.commands.tune, ttf.tools.tune.study\n"
    words += "assert not {'optuna', 'torch', 'pydantic'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", words], check=True)
