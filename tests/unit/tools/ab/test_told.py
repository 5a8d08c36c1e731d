"""The secrets of compared commands are in no output, only where they are needed to run again."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from ttf.tools.ab import finish
from ttf.tools.ab.sample import Sample
from ttf.tools.ab.study import ABStudy, begin_commands

TOKEN = "ghp_abcdefghijABCDEFGHIJ12345"
COMMANDS = (
    f"python3 x --password first1 --token={TOKEN}",
    f"python3 x --password second2 --token={TOKEN}",
)


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ABStudy]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TTF_HOME", str(tmp_path / "home"))
    begun = begin_commands(COMMANDS, command=f"ttf ab --command '{COMMANDS[0]}'", repeats=1, seed=0)
    for cell in begun.setup.cells:
        lost = Sample(**cell._asdict(), outcome="lost", reason=f"{TOKEN} was refused", wall_s=1.0)
        begun.remember(lost)
    yield begun
    begun.close()


def test_no_output_holds_a_secret_of_a_command_and_the_arms_stay_two(study: ABStudy) -> None:
    analysis = finish.conclude(study, "all")
    assert len({arm.name for arm in analysis.arms}) == 2
    outputs = ("report.html", "report.md", "samples.csv", "result.json")
    for name in outputs:
        text = (study.folder / name).read_text().replace("\\", "")
        assert "secret-github-token" in text and "secret-password" in text, name
        assert not [bad for bad in ("first1", "second2", "abcdefghij") if bad in text], name


def test_what_holds_the_commands_is_for_their_user_alone(study: ABStudy) -> None:
    kept = [path for path in study.folder.iterdir() if TOKEN in path.read_text()]
    assert {path.name for path in kept} == {"study.json", "samples.jsonl"}
    assert {stat.S_IMODE(path.stat().st_mode) for path in kept} == {0o600}
    assert ABStudy.read(study.folder).setup.arms[0].words[-1] == f"--token={TOKEN}"
