"""The folder of a decision that somebody else made, or changed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import Invoke

from ttf.errors import ConfigError, EntryRefused
from ttf.tools.decision.page import write_page
from ttf.tools.decision.record import Decision, Terms

_COMMANDS = ("resume", "report", "runs show", "monitor --once")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    file = tmp_path / "A.toml"
    file.write_text("")
    made = Decision.begin(tmp_path / "out", [file], Terms(cwd=str(tmp_path)))
    made.close()
    return made.folder


def change(folder: Path, *candidates: dict[str, Any]) -> None:
    path = folder / "decision.json"
    document = json.loads(path.read_text())
    first = document["candidates"][0]
    document["candidates"] = [{**first, **changed} for changed in candidates]
    path.write_text(json.dumps(document))


@pytest.mark.parametrize("command", _COMMANDS)
@pytest.mark.parametrize("begun", [False, True])
def test_no_command_follows_a_link_in_the_place_of_a_run(
    command: str, begun: bool, folder: Path, tmp_path: Path, invoke: Invoke
) -> None:
    victim = tmp_path / "victim"
    (victim / "model").mkdir(parents=True)
    (victim / "model" / "weights").write_text("mine")
    (victim / "log.txt").write_text("mine")
    if begun:
        (victim / "run.toml").write_text("")
        (victim / "manifest.json").write_text("{}")
    (folder / "a").symlink_to(victim)
    before = {path: path.stat().st_mtime_ns for path in victim.rglob("*")}
    done = invoke([*command.split(), folder])
    assert done.code == 3
    assert "is a symbolic link" in done.err
    assert {path: path.stat().st_mtime_ns for path in victim.rglob("*")} == before


def test_neither_the_record_nor_the_page_reads_through_a_link(folder: Path, tmp_path: Path) -> None:
    (folder / "a").symlink_to(tmp_path)
    for read in (Decision.read, Decision.open, write_page):
        with pytest.raises(EntryRefused):
            read(folder)


@pytest.mark.parametrize("command", _COMMANDS)
def test_a_decision_about_nothing_is_damaged(command: str, folder: Path, invoke: Invoke) -> None:
    change(folder)
    done = invoke([*command.split(), folder])
    assert done.code == 3
    assert "it names no configuration" in done.err


def test_a_path_that_no_file_can_have_is_one_line(folder: Path, invoke: Invoke) -> None:
    change(folder, {"file": "\0a"})
    done = invoke(["resume", folder])
    assert done.code == 2
    assert "Could not read" in done.err and "null byte" in done.err


def test_what_another_command_began_stays_if_its_configuration_is_refused(
    folder: Path, tmp_path: Path
) -> None:
    earlier = Decision.open(folder)
    earlier.abandon()
    earlier.close()
    assert (folder / "decision.json").is_file()
    (tmp_path / "A.toml").write_text("changed")
    with pytest.raises(ConfigError, match="has changed since"):
        Decision.open(folder)
    assert (folder / "decision.json").is_file()


def test_what_this_command_began_goes_if_no_run_began(tmp_path: Path) -> None:
    file = tmp_path / "A.toml"
    file.write_text("")
    made = Decision.begin(tmp_path / "new", [file], Terms(cwd=str(tmp_path)))
    made.abandon()
    made.close()
    assert not (tmp_path / "new").exists()
