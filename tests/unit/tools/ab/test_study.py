"""A study without trainers: what is run when, remembered, repeated, given up and gone on with."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

import ttf
from ttf.errors import (
    ArtifactDamaged,
    BadData,
    ConfigError,
    DataChanged,
    DataMissing,
    FolderInUse,
    GaveUp,
)  # fmt: skip
from ttf.tools.ab import finish, study
from ttf.tools.ab.progress import RepeatLines
from ttf.tools.ab.repeat import finished_repeat
from ttf.tools.ab.sample import RepeatIncident, RepeatOutcome, Sample
from ttf.tools.ab.setup import Cell, next_wave
from ttf.tools.ab.study import ABLimits, ABStudy, begin, carry_on
from ttf.tools.studies.carry_out import Watcher
from ttf.tools.studies.one_run import FinishedRun
from ttf.tools.studies.same_data import fingerprints


@dataclass
class Repeats:
    """Stands in for trainings: each cell ends as `ends` says, the next time it comes."""

    ends: dict[tuple[int, str], list[RepeatOutcome]] = field(default_factory=dict)
    wave: list[Cell] = field(default_factory=list)
    waves: list[list[Cell]] = field(default_factory=list)
    """Those that were begun."""
    seconds: float = 10.0
    evaluating_s: float = 0.0
    stop_after: int = 1000

    def next_wave(self, *asked: Any) -> list[Cell]:
        self.wave = next_wave(*asked)
        return self.wave

    def start(
        self, setup: Any, cell: Cell, folder: Path, *, allow_remote: bool = False
    ) -> FinishedRun[Sample]:
        if self.stop_after <= 0:
            raise KeyboardInterrupt
        self.stop_after -= 1
        if self.wave not in self.waves:
            self.waves.append(self.wave)
        left = self.ends.get((cell.block, cell.arm), [])
        outcome = left.pop(0) if left else "clean"
        names = {"void": "killed", "survived": "segfault", "lost": "hang"}
        name = names.get(outcome)
        incidents = (RepeatIncident(name=name, process="trainer", step=3),) if name else ()
        sample = Sample(
            arm=cell.arm,
            block=cell.block,
            position=cell.position,
            seed=cell.seed,
            outcome=outcome,
            exit_code=3 if outcome == "invalid" else 0,
            incidents=incidents,
            steps=5,
            wall_s=self.seconds,
            samples_per_s={"a": 100.0, "b": 150.0}[cell.arm] + cell.block,
            peak_anon_mb=200.0,
        )
        error = {"class": "BadData", "message": "no such rows", "hint": ""}
        return finished_repeat(sample, error if outcome == "invalid" else None, self.evaluating_s)


@pytest.fixture
def repeats(monkeypatch: pytest.MonkeyPatch) -> Repeats:
    made = Repeats()
    monkeypatch.setattr(study, "start_repeat", made.start)
    monkeypatch.setattr(study, "next_wave", made.next_wave)
    return made


@pytest.fixture
def begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., ABStudy]]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("ttf.tools.ab.study.check_arms", lambda arms, sets, steps: (arms, [], []))
    for name in ("a", "b"):
        Path(f"{name}.toml").touch()
    opened: list[ABStudy] = []

    def new(**asked: Any) -> ABStudy:
        opened.append(begin([Path("a.toml"), Path("b.toml")], **{"repeats": 4, **asked}))
        return opened[-1]

    yield new
    for each in opened:
        each.close()


def run(found: ABStudy, **limits: Any) -> str:
    return carry_on(found, ABLimits(**limits), Watcher(), finish.is_settled)


def test_every_repeat_is_run_once_block_by_block_and_remembered(
    repeats: Repeats, begun: Callable[..., ABStudy]
) -> None:
    found = begun()
    assert run(found) == "all"
    assert [len(wave) for wave in repeats.waves] == [2, 2, 2, 2]
    assert [cell for wave in repeats.waves for cell in wave] == found.setup.cells
    assert ABStudy.read(found.folder).runs == found.runs and len(found.runs) == 8


def test_whole_blocks_run_beside_one_another(
    repeats: Repeats, begun: Callable[..., ABStudy]
) -> None:
    found = begun(repeats=5)
    run(found, parallel=5)
    assert [len({cell.block for cell in wave}) for wave in repeats.waves] == [2, 2, 1]
    assert found.record.parallel == 5


def test_a_repeat_that_somebody_killed_is_done_again_and_the_third_in_a_row_ends_it(
    repeats: Repeats, begun: Callable[..., ABStudy]
) -> None:
    repeats.ends = {(2, "a"): ["void", "lost"], (3, "b"): ["void", "survived"]}
    found = begun()
    assert run(found) == "all"
    assert [s.outcome for s in found.runs].count("void") == 2 and len(found.done) == 8
    found.close()
    repeats.ends = {(1, "a"): ["void"] * 3, (1, "b"): ["void"] * 3}
    found = begun(seed=9)
    with pytest.raises(GaveUp, match="3 repeats in a row"):
        run(found)
    assert [s.outcome for s in found.runs] == ["void"] * 3


def test_a_repeat_that_would_not_go_ends_the_study_with_its_error(
    repeats: Repeats, begun: Callable[..., ABStudy]
) -> None:
    repeats.ends = {(2, "b"): ["invalid"]}
    found = begun()
    with pytest.raises(BadData, match="no such rows"):
        run(found)
    assert all(sample.outcome == "clean" for sample in found.runs)


def test_what_was_interrupted_goes_on_with_the_same_words_and_does_nothing_twice(
    repeats: Repeats, begun: Callable[..., ABStudy]
) -> None:
    repeats.stop_after = 3
    first = begun()
    with pytest.raises(KeyboardInterrupt):
        run(first)
    before = (first.folder / "samples.jsonl").read_text()
    running = first.setup.cells[3]
    left = first.folder / "runs" / f"{running.block:03d}-{running.arm}"
    left.mkdir(parents=True)
    with pytest.raises(FolderInUse):
        ABStudy.open(first.folder)
    first.close()
    repeats.stop_after, repeats.waves = 1000, []
    second = begun()
    assert second.folder == first.folder and len(second.done) == 3
    assert not left.exists(), "it is done anew"
    assert run(second) == "all"
    assert sum(map(len, repeats.waves)) == 5
    journal = second.folder / "samples.jsonl"
    assert journal.read_text().startswith(before)
    finish.conclude(second, "all")
    second.close()
    whole = journal.read_text()
    journal.write_text(whole[:-9])  # as a copy that was cut off
    with pytest.raises(ArtifactDamaged, match="line 8 is damaged") as cut:
        ABStudy.open(second.folder)
    assert cut.value.hint is not None and "remove this line" in cut.value.hint
    journal.write_text(whole)
    assert begun().folder != first.folder, "that one is finished"


def test_a_study_does_not_go_on_with_other_data(
    repeats: Repeats, begun: Callable[..., ABStudy], tmp_path: Path
) -> None:
    pairs = tmp_path / "pairs.bin"
    pairs.write_bytes(b"a" * 1000)
    repeats.stop_after = 3
    first = begun()
    first.setup = replace(first.setup, data_seen=fingerprints([str(pairs)]))
    first.write_settings()
    with pytest.raises(KeyboardInterrupt):
        run(first)
    first.close()
    repeats.stop_after = 1000
    pairs.write_bytes(b"a" * 999 + b"b")
    with pytest.raises(DataChanged, match=r"pairs\.bin \(1,000 bytes, .*, then 1,000 bytes"):
        begun()
    pairs.unlink()
    with pytest.raises(DataChanged, match="missing: No such file"):
        ABStudy.open(first.folder)
    pairs.write_bytes(b"a" * 1000)
    second = begun()
    assert second.folder == first.folder and run(second) == "all"


def test_other_words_are_another_study(repeats: Repeats, begun: Callable[..., ABStudy]) -> None:
    first = begun(out=Path("mine"))
    first.close()
    with pytest.raises(ConfigError, match="a different study"):
        begun(out=Path("mine"), seed=3)
    Path("a.toml").write_text("[train]")
    with pytest.raises(ConfigError, match="changed since the start"):
        ABStudy.open(Path("mine"))
    with pytest.raises(DataMissing, match="no study"):
        ABStudy.open(Path())
    assert ABStudy.holds_one(Path("mine")) and not ABStudy.holds_one(Path())


def test_a_study_gets_more_repeats_and_never_fewer(
    repeats: Repeats, begun: Callable[..., ABStudy]
) -> None:
    found = begun()
    run(found)
    found.close()
    with pytest.raises(ConfigError, match="but not remove them"):
        ABStudy.reopened(found.folder, 3)
    more = ABStudy.reopened(found.folder, 6)
    repeats.waves = []
    assert run(more) == "all" and sum(map(len, repeats.waves)) == 4
    more.close()
    looking = begun(sequential=True)
    with pytest.raises(ConfigError, match="cannot add repeats"):
        looking.extend(9)


def test_no_block_begins_that_would_not_end_in_time_and_none_stays_half(
    repeats: Repeats, begun: Callable[..., ABStudy]
) -> None:
    found = begun()
    assert run(found, budget_s=15) == "budget"
    assert [len(wave) for wave in repeats.waves] == [2]
    assert found.blocks * 2 == len(found.done)


def test_a_sequential_study_looks_when_it_is_time_and_ends_when_it_is_sure(
    repeats: Repeats, begun: Callable[..., ABStudy], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = begun(repeats=10, sequential=True)
    assert run(found, parallel=1) in ("all", "settled")
    looks = found.record.looks
    assert looks[0] == 4 and set(looks) <= {4, 6, 8}
    found.close()
    sure = begun(repeats=10, sequential=True, seed=1)
    monkeypatch.setattr(finish, "judge_study", lambda _: type("Sure", (), {"settled": True})())
    assert run(sure) == "settled"
    assert sure.blocks == 4 and sure.record.looks == [4]


def test_evaluations_that_take_long_are_told_once(
    repeats: Repeats, begun: Callable[..., ABStudy], capsys: pytest.CaptureFixture[str]
) -> None:
    repeats.evaluating_s = 6.0
    found = begun()
    carry_on(found, ABLimits(), RepeatLines(found, 1), finish.is_settled)
    err = capsys.readouterr().err
    assert err.count("Evaluations took 60%") == 1
    assert "repeat 7 of 8  " in err and "about 10 s left" in err
    assert err.count("clean, 10") == 4, "samples/s of a, after those of b"


def test_compare_returns_what_the_command_writes(
    repeats: Repeats, begun: Callable[..., ABStudy]
) -> None:
    repeats.ends = {(1, "a"): ["survived"], (2, "a"): ["lost"]}
    found = ttf.compare("a.toml", "b.toml", repeats=3, out="here", margins={"loss": 0.1})
    assert [arm.crashes for arm in found.analysis.arms] == [2, 0]
    assert found.verdict and len(found.samples) == 6
    here = {path.name for path in Path("here").iterdir()}
    assert {"samples.csv", "report.md", "report.html", "result.json"} <= here
    assert json.loads(Path("here/result.json").read_text())["arms"][0]["runs"] == 3
    again = ttf.compare(resume="here", repeats=4)
    assert len(again.samples) == 8
    with pytest.raises(ConfigError):
        ttf.compare("a.toml", resume="here")
