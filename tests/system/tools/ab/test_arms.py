"""Which arms words make, what they are called, and what is refused before anything runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.tools.ab.test_arms import files  # noqa: F401

from ttf.errors import ConfigError
from ttf.tools.ab.arms import arms_from, check_arms


def test_every_problem_of_every_arm_is_told_once_before_anything_runs(files: list[Path]) -> None:
    a, b = files
    b.write_text("[train]\nstepz = 3\n")
    with pytest.raises(ConfigError) as raised:
        check_arms(arms_from([a, b], ["miner.name=fais,exact"]), ["train.lrr=1"], None)
    problems = "\n".join(raised.value.problems)
    assert problems.count("train.lrr: no such key") == 1 and "every arm: --set" in problems
    assert "b, miner.name=fais; b, miner.name=exact: b.toml:2: train.stepz" in problems
    assert "a, miner.name=fais; b, miner.name=fais: --set: miner.name" in problems


def test_arms_are_evaluated_on_their_way_unless_they_say_when(files: list[Path]) -> None:
    a, b = files
    b.write_text("[evaluate]\nevery = 'end'\n[train]\nsteps = 30\n")
    arms, notes, _ = check_arms(arms_from([a, b]), (), None)
    assert [arm.evaluate_every for arm in arms] == [5, None] and not notes
    a.write_text("")
    b.write_text("")
    arms, notes, _ = check_arms(arms_from([a, b]), (), 100)
    assert [arm.evaluate_every for arm in arms] == [17, 17]
    assert "the same configuration" in notes[0]
