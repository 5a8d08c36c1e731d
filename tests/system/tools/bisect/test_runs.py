"""One run of a study: what counts as a crash, and what does not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.kit.planted_training import Place

from ttf.errors import ConfigError
from ttf.tools.bisect.experiment import BisectRun, Trial
from ttf.tools.bisect.factors import Factor
from ttf.tools.bisect.runs import (
    TrainExperiment,
    command_line,
    finish_trial,
    start_trial,
    train_words,
)
from ttf.tools.studies.one_run import FinishedRun, StartedRun, error_of

Run = Callable[..., FinishedRun[BisectRun]]


def setup(toml: Path, *factors: Factor, **given: Any) -> TrainExperiment:
    known: dict[str, Any] = {
        "toml": str(toml),
        "toml_sha256": "",
        "sets": (),
        "steps": 3,
        "seed": 10,
        "pins": {},
        "short": {"supervise.max_restarts": 0, "evaluate.every": "end"},
        "data": {},
        "factors": factors,
        "passed": {},
        "confidence": 0.95,
        "rarest": 0.2,
    }
    return TrainExperiment(**(known | given))


def factor(name: str, edits: dict[str, Any]) -> Factor:
    return Factor(name=name, rank=1, what="", edits=edits)


@pytest.fixture
def run(place: Place, monkeypatch: pytest.MonkeyPatch) -> Run:
    def once(*factors: Factor, fault: dict[str, Any] | None = None) -> FinishedRun[BisectRun]:
        for key, value in place.environment(fault).items():
            monkeypatch.setenv(key, value)
        (place.root / "study").mkdir()
        names = [f.name for f in factors]
        made = setup(place.toml, *factors)
        trial = Trial(run=1, ablated=tuple(names), seed=11)
        started = start_trial(made, trial, place.root / "study")
        assert isinstance(started, StartedRun)
        started.wait()
        return finish_trial(trial, started)

    return once


def test_a_configuration_that_will_not_go_is_no_crash_and_its_reason_is_kept(run: Run) -> None:
    finished = run(factor("tower", {"tower.query.name": "nowhere"}))
    assert finished.result == finished.run.result == "invalid" and finished.run.exit_code == 2
    assert "nowhere" in finished.run.reason
    assert isinstance(error_of(finished.error, finished.exit_code), ConfigError)


def test_a_run_that_somebody_killed_says_nothing(run: Run, place: Place) -> None:
    finished = run(fault={"fault": "tower", "act": "kill"})
    assert finished.result == finished.run.result == "void"
    assert finished.run.classes == ("killed",)
    assert not (place.root / "study" / "runs" / "001").exists()


def test_every_run_has_a_seed_of_its_own_and_edits_have_the_last_word() -> None:
    made = setup(Path("run.toml"), sets=("train.lr=0.1",), pins={"train.batch_size": 64})
    said = train_words(made, {"train.batch_size": 16, "observers": []}, seed=12)
    assert said[said.index("--seed") + 1] == "12"
    sets = [said[i + 1] for i, word in enumerate(said) if word == "--set"]
    assert sets.index("train.batch_size=64") < sets.index("train.batch_size=16")
    assert sets[0] == "train.lr=0.1" and sets[-1] == "observers=[]"


def test_the_command_that_is_told_says_everything_once_and_nothing_idle() -> None:
    made = setup(
        Path("my run.toml"),
        pins={"train.batch_size": 64, "memory.budget": 5, "miner.name": "exact"},
        short={"evaluate.every": "end", "miner.start": 3},
    )
    line = command_line(made, {"miner.negatives": 0, "miner.isolation": "process"}, seed=4)
    assert line.startswith("ttf train 'my run.toml' --steps 3 --seed 4 --no-remedies")
    assert "train.batch_size=64" in line and "miner.negatives=0" in line
    for idle in ("memory.budget", "evaluate.every", "miner.start", "isolation", "miner.name"):
        assert idle not in line
