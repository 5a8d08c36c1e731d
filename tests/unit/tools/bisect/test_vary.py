"""What `--vary` names, and what a command line suggests by itself."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from ttf.errors import ConfigError
from ttf.tools.bisect.factors import Factor
from ttf.tools.bisect.vary import edited, proposed, varied

WORDS = ["python", "train.py", "--bs", "64", "--accum=16", "--amp", "--lr", "-1", "size=3"]


def one(text: str) -> Factor:
    (factor,) = varied([text], WORDS)
    return factor


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("flag:--bs=4", "python train.py --bs 4 --accum=16 --amp --lr -1 size=3"),
        ("flag:--accum=1", "python train.py --bs 64 --accum=1 --amp --lr -1 size=3"),
        ("flag:--amp", "python train.py --bs 64 --accum=16 --lr -1 size=3"),
        ("flag:--lr", "python train.py --bs 64 --accum=16 --amp size=3"),
        ("flag:size=1", "python train.py --bs 64 --accum=16 --amp --lr -1 size=1"),
        ("flag:--seed=1", "python train.py --bs 64 --accum=16 --amp --lr -1 size=3 --seed 1"),
    ],
)
def test_an_edit_changes_one_flag_and_nothing_else(text: str, words: str) -> None:
    assert edited(WORDS, one(text).edits) == (words.split(), {})


def test_a_variable_is_set_or_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MODE", "fast")
    assert edited(WORDS, one("env:MODE=slow").edits) == (WORDS, {"MODE": "slow"})
    assert edited(WORDS, one("env:MODE").edits) == (WORDS, {"MODE": None})
    assert one("env:MODE").what == "MODE fast -> not set"


def test_another_interpreter_takes_the_place_of_the_first() -> None:
    factor = one(f"python:{sys.executable}")
    words, _ = edited(["nohup", "python3.11", "train.py"], factor.edits)
    assert words == ["nohup", sys.executable, "train.py"]
    assert factor.component, "an interpreter may carry the fault that a flag triggers"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("evn:A=1", "does not begin with"),
        ("env:1=2", "not the name of a variable"),
        ("flag:--bs=64", "already '64'"),
        ("flag:--none", "not in the command"),
        ("flag:none=1", "an option begins with -"),
        ("python:/nowhere/python", "no such file"),
        ("remedy:all", "remedy:threads"),
    ],
)
def test_what_changes_nothing_is_refused_with_its_reason(text: str, why: str) -> None:
    with pytest.raises(ConfigError) as refused:
        varied([text, "flag:--amp"], WORDS)
    assert why in str(refused.value.problems)


def test_a_command_suggests_its_ingredients() -> None:
    environment = {"KMP_AFFINITY": "none", "HOME": "/", "OMP_NUM_THREADS": "8"}
    assert [factor.name for factor in proposed(WORDS, environment)] == [
        "remedy:threads",
        "env:KMP_AFFINITY",
        "flag:--bs=16",
        "flag:--accum=1",
        "flag:--amp",
    ]


def test_of_a_virtual_environment_its_folder_is_enough(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/python").symlink_to(sys.executable)
    assert one(f"python:{tmp_path}").edits == {"python": os.fspath(tmp_path / "bin/python")}
