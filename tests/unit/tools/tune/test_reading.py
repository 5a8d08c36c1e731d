"""What is read of a trial, whatever its end was."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.kit.tuned_by_hand import setup

from ttf.tools.studies.one_run import StartedRun
from ttf.tools.tune.runs import behind_at, finish_trial
from ttf.tools.tune.settings import look_steps
from ttf.tools.tune.trial import TuneTrial

SETUP = setup()
TASK = TuneTrial(number=2, point={**SETUP.start_point, "train.epochs": 2})
STEPS = SETUP.steps_of(TASK.point)
FINISHED: dict[str, Any] = {
    "status": "finished",
    "steps": STEPS,
    "metrics": {"recall@10": 0.4, "mrr@10": 0.2},
}


def run(
    study: Path,
    scores: Sequence[float],
    summary: Mapping[str, Any],
    *,
    code: int = 0,
    incident: str = "",
    survived: bool = False,
) -> StartedRun:
    """A run that is over, without the process that made it."""
    folder = study / "runs" / "002"
    folder.mkdir(parents=True)
    steps = [0, *look_steps(STEPS)]
    lines = [
        {"type": "eval", "step": step, "seconds": 0.5, "metrics": {"recall@10": score}}
        for step, score in zip(steps, (0.1, *scores), strict=False)
    ]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    if summary:
        (folder / "summary.json").write_text(json.dumps(summary))
    if incident:
        (folder / "incidents" / "001").mkdir(parents=True)
        about = {"class": incident, "process": "trainer", "step": 1}
        (folder / "incidents" / "001" / "incident.json").write_text(json.dumps(about))
    made = object.__new__(StartedRun)
    made.folder, made.exit_code, made.wall_s = folder, code, 7.5
    made.error = {"message": "the loss is not finite"} if code else None
    made.survived = survived
    return made


def never(scores: Sequence[float]) -> bool:
    return False


def test_a_finished_trial_has_the_metric_of_its_kept_weights(tmp_path: Path) -> None:
    found = finish_trial(SETUP, TASK, run(tmp_path, [0.2, 0.3, 0.4, 0.35], FINISHED), never)
    assert found.result == "clean" and not found.needed
    assert found.run == replace(
        TASK,
        scores=(0.2, 0.3, 0.4, 0.35),
        score=0.4,
        metrics=FINISHED["metrics"],
        steps=STEPS,
        seconds=7.5,
        evaluating_s=2.5,
    )
    assert not (tmp_path / "runs" / "002" / "metrics.jsonl").exists(), "only the evidence is kept"


@pytest.mark.parametrize("later", [[], [0.3], [0.3, 0.5, 0.9]], ids=["at once", "late", "too late"])
def test_a_hopeless_trial_says_the_same_whenever_we_looked(
    tmp_path: Path, later: list[float]
) -> None:
    code, summary = (0, FINISHED) if len(later) == 3 else (143, {"steps": 99})
    ended = run(tmp_path, [0.2, *later], summary, code=code)
    found = finish_trial(SETUP, TASK, ended, lambda scores: True)
    assert found.result == "clean"
    assert (found.run.outcome, found.run.scores, found.run.score) == ("hopeless", (0.2,), None)
    assert found.run.steps == look_steps(STEPS)[0]


def test_the_last_look_ends_nothing() -> None:
    assert behind_at([0.1] * 4, STEPS, lambda scores: len(scores) == 4) is None
    assert behind_at([0.1] * 4, STEPS, lambda scores: len(scores) == 3) == 3
    assert behind_at([0.1], 1, lambda scores: True) is None


@pytest.mark.parametrize(
    ("ended", "outcome", "result"),
    [
        ({"code": 4, "incident": "non-finite"}, "failed", "crash"),
        ({"code": 5, "incident": "segfault"}, "failed", "crash"),
        ({"code": 2}, "failed", "invalid"),
        ({"code": 143}, "void", "void"),
        ({"code": 143, "survived": True}, "cut", "clean"),
        ({"code": 0}, "failed", "crash"),
    ],
)
def test_a_death_is_data_and_a_stop_from_outside_is_not(
    tmp_path: Path, ended: dict[str, Any], outcome: str, result: str
) -> None:
    found = finish_trial(SETUP, TASK, run(tmp_path, [0.2], {}, **ended), never)
    assert (found.run.outcome, found.result) == (outcome, result)
    assert found.run.score is None
    assert found.run.counted == (outcome == "failed")


def test_a_trial_that_survived_a_crash_counts(tmp_path: Path) -> None:
    ended = run(tmp_path, [0.2, 0.3, 0.4, 0.4], FINISHED, incident="segfault")
    found = finish_trial(SETUP, TASK, ended, never)
    assert (found.run.outcome, found.run.incidents) == ("finished", ("segfault",))


def test_the_users_own_configuration_must_be_able_to_run(tmp_path: Path) -> None:
    first = replace(TASK, number=1)
    assert finish_trial(SETUP, first, run(tmp_path, [], {}, code=2), never).needed
