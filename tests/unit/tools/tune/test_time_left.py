"""The arithmetic of the budget."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest
from tests.kit.tuned_by_hand import setup, trial

from ttf.errors import ConfigError
from ttf.tools.tune.time_left import Clock, checked_share, last_run_s, reserve_s, trial_limit_s


def test_a_budget_for_one_short_trial_and_a_full_run_is_needed() -> None:
    assert checked_share(600, 20) == 1.0
    assert checked_share(600, 400) == 0.1
    with pytest.raises(ConfigError, match=r"10:00 is too small.*10:00 here.*1:00") as caught:
        checked_share(600, 600)
    assert "--budget 13m" in caught.value.hint


def test_the_last_run_takes_all_pairs_all_steps_and_the_users_evaluations() -> None:
    made = setup(pairs=20_000)  # trials on 18,000; 2,000 held out; 1,000 to validate
    one = trial(2, {**made.start_point, "train.epochs": 4}, 0.5, seconds=10.0)
    # 1 s to calibrate; 8 s of training; 2 s for five evaluations, of half as many queries each in the last run
    assert last_run_s(made, one) == pytest.approx(1.15 * (8 * 20 / 18 + 5 * 0.2 + 1.0))
    short = replace(made, share=0.25)
    assert last_run_s(short, one) == pytest.approx(1.15 * (4 * 8 * 20 / 18 + 5 * 0.2 + 1.0))
    at_the_end = replace(made, settled={**made.settled, "evaluate.every": "end"})
    assert last_run_s(at_the_end, one) == pytest.approx(1.15 * (8 * 20 / 18 + 2 * 0.2 + 1.0))


def test_after_every_trial_there_is_time_for_whatever_wins() -> None:
    made = setup()
    trials = [trial(1, dict(made.start_point), 0.5, seconds=10.0)]
    for left_s in (200.0, 60.0, 40.0):
        limit_s = trial_limit_s(made, trials, left_s)
        assert limit_s is not None
        assert left_s - limit_s >= reserve_s(made, trials) - 1e-6
        longer = replace(trials[0], number=2, score=0.6, seconds=limit_s, evaluating_s=limit_s / 5)
        assert left_s - limit_s >= reserve_s(made, [*trials, longer]) - 1e-6
    assert trial_limit_s(made, trials, 16.0) is None


def test_the_start_may_take_what_leaves_time_for_its_full_run() -> None:
    made = setup()
    assert trial_limit_s(made, [], 215.0) == pytest.approx(100.0)
    assert trial_limit_s(replace(made, share=0.1), [], 125.0) == pytest.approx(10.0)


def test_four_failures_are_enough() -> None:
    made = setup()
    failed = replace(trial(1, {}, 0.5), outcome="failed", score=None)
    assert trial_limit_s(made, [failed] * 3, 500.0) is not None
    assert trial_limit_s(made, [failed] * 4, 500.0) is None
    assert trial_limit_s(made, [failed], 10.0) is None


def test_a_study_that_goes_on_has_the_time_that_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    first = Clock(tmp_path, now)
    now = 1042.5
    first.keep(now=True)
    now = 7.0  # the machine was started anew
    second = Clock(tmp_path, now)
    now = 10.0
    assert second.used_s == 45.5
    second.keep(now=True)
    assert Clock(tmp_path, now).used_s == 45.5
    (tmp_path / "clock.json").write_text("{torn")
    assert Clock(tmp_path, now).used_s == 0.0


@pytest.mark.parametrize("used", ['"x"', "null", "[]", "1e999", "true"])
def test_a_clock_of_somebody_else_begins_at_zero(tmp_path: Path, used: str) -> None:
    (tmp_path / "clock.json").write_text(f'{{"used_s": {used}}}')
    assert Clock(tmp_path, time.monotonic()).used_s < 60
