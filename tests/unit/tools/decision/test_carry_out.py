"""What leads to the next configuration, what ends the whole."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from ttf.errors import (
    BadData,
    ConfigError,
    GateNotMet,
    GaveUp,
    NumericFailure,
    PluginBroken,
    Stopped,
    StorageError,
    Told,
    TrainerFault,
    TtfError,
)
from ttf.rundir.documents import Summary
from ttf.tools.decision.carry_out import carry_out
from ttf.tools.decision.record import Candidate, Decision, Terms


@pytest.fixture
def decision(tmp_path: Path) -> Decision:
    files = [tmp_path / name for name in ("A.toml", "B.toml", "C.toml")]
    for file in files:
        file.write_text("")
    made = Decision.begin(tmp_path / "out", files, Terms(cwd=str(tmp_path)))
    made.close()
    return made


class Trains:
    """Raises what it has, one for each configuration; then it finishes."""

    def __init__(self, *errors: Told) -> None:
        self.errors = list(errors)
        self.begun: list[str] = []

    def __call__(self, candidate: Candidate) -> Summary:
        self.begun.append(candidate.name)
        if self.errors:
            raise self.errors.pop(0)
        return {"status": "finished"}


def tried(decision: Decision, trains: Trains) -> list[str]:
    said: list[str] = []
    carry_out(decision, trains, said.append)
    return said


@pytest.mark.parametrize("kind", [GateNotMet, GaveUp, NumericFailure, TrainerFault])
def test_a_death_and_a_missed_gate_lead_to_the_next(
    decision: Decision, kind: type[TtfError]
) -> None:
    trains = Trains(kind("first line\nand more"))
    said = tried(decision, trains)
    assert trains.begun == ["a", "b"]
    assert said[0].startswith("a (A.toml) ")
    assert said[0].endswith(" first line")
    read = Decision.read(decision.folder)
    assert read.chosen is not None
    assert (read.chosen.name, read.candidates[0].exit_code) == ("b", kind.exit_code)
    assert "b (B.toml) finished and was chosen" in (decision.folder / "report.html").read_text()


@pytest.mark.parametrize(
    "error",
    [
        BadData("the data changed"),
        StorageError("the disk is full", hint="Continue with: ttf resume RUN, soon"),
        ConfigError("wrong"),
        PluginBroken("not importable"),
        Stopped(signal.SIGTERM, "stopped"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_would_end_the_next_one_too_ends_the_whole(
    decision: Decision, error: TtfError | Stopped
) -> None:
    error.hint = error.hint.replace("RUN", str(decision.folder / "a"))
    trains = Trains(error)
    with pytest.raises(type(error)):
        tried(decision, trains)
    assert trains.begun == ["a"]
    assert Decision.read(decision.folder).candidates[0].outcome == ""
    assert error.details["decision"]["chosen"] is None
    if error.hint:
        assert error.hint == f"Continue with: ttf resume {decision.folder}, soon"
    tried(decision, Trains())
    assert Decision.read(decision.folder).candidates[0].outcome == "finished"


def test_the_page_of_all_holds_no_secret_of_a_received_folder(tmp_path: Path) -> None:
    files = [tmp_path / "--token=hunter2hunter2.toml", tmp_path / "B.toml"]
    for file in files:
        file.write_text("")
    decision = Decision.begin(tmp_path / "out", files, Terms(cwd=str(tmp_path)))
    tried(decision, Trains(GaveUp("x --password hunter3hunter3 \x1b[2J")))
    decision.close()
    page = (tmp_path / "out" / "report.html").read_text()
    assert "--token=&lt;secret-token&gt;" in page and "secret-password" in page
    assert not [bad for bad in ("hunter2", "hunter3", "\x1b") if bad in page]


def test_a_signal_that_came_while_a_run_ended_stops_the_whole(decision: Decision) -> None:
    error = GateNotMet("missed")
    error.signals = [signal.SIGTSTP, signal.SIGTERM]
    trains = Trains(error)
    with pytest.raises(Stopped) as caught:
        tried(decision, trains)
    assert (trains.begun, caught.value.exit_code) == (["a"], 143)
    assert caught.value.hint == f"Continue with: ttf resume {decision.folder}"
    again = Trains()
    tried(decision, again)
    assert again.begun == ["b"]


def test_the_last_one_gives_the_whole_its_error_and_nothing_is_tried_again(
    decision: Decision,
) -> None:
    trains = Trains(GaveUp("one"), NumericFailure("two"), GateNotMet("three"))
    with pytest.raises(GateNotMet, match="three"):
        tried(decision, trains)
    again = Trains()
    with pytest.raises(GateNotMet, match=r"All configurations were tried.*c \(C.toml\)") as caught:
        tried(decision, again)
    assert (trains.begun, again.begun) == (["a", "b", "c"], [])
    assert str(decision.folder / "c") in caught.value.hint


def test_a_file_that_changed_before_its_turn_is_refused(decision: Decision, tmp_path: Path) -> None:
    tried(decision, Trains(GaveUp("one")))
    fresh = Decision.begin(
        tmp_path / "new", [tmp_path / "A.toml", tmp_path / "B.toml"], Terms(cwd="")
    )
    fresh.close()
    (tmp_path / "B.toml").write_text("[train]\n")
    Decision.open(decision.folder).close()  # B has ended there
    with pytest.raises(ConfigError, match=r"B\.toml has changed"):
        Decision.open(fresh.folder)


def test_what_was_made_for_nothing_goes_again_and_other_folders_stay(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("A.toml", "B.toml")]
    for file in files:
        file.write_text("")
    (tmp_path / "there").mkdir()
    for name in ("new", "there"):
        made = Decision.begin(tmp_path / name, files, Terms(cwd=""))
        made.abandon()
        made.close()
        assert not made.exists
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["A.toml", "B.toml", "there"]


@pytest.mark.parametrize("name", ["run.toml", "report.html", "a"])
def test_it_does_not_begin_where_files_of_somebody_else_are(name: str, tmp_path: Path) -> None:
    files = [tmp_path / "A.toml", tmp_path / "B.toml"]
    for file in files:
        file.write_text("")
    out = tmp_path / "mine"
    out.mkdir()
    (out / name).write_text("mine")
    with pytest.raises(ConfigError, match=rf"contains {name}, but no decision"):
        Decision.begin(out, files, Terms(cwd=""))
    assert [path.name for path in out.iterdir()] == [name]
