"""The folder of a study, its configurations, and its page."""

from __future__ import annotations

import doctest
import json
import tomllib
from dataclasses import asdict, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.kit.tuned_by_hand import history, setup, trial

from ttf.config.resolve import resolve
from ttf.errors import DataMissing, EntryRefused
from ttf.tools.tune import facts, finish, settings, space, time_left, words
from ttf.tools.tune.last_run import write_best
from ttf.tools.tune.page import _charts
from ttf.tools.tune.settings import look_steps, trial_toml, values_of
from ttf.tools.tune.setup import DOC_TOWER, TOWER
from ttf.tools.tune.study import TuneStudy
from ttf.tools.tune.trial import best_of


@pytest.fixture
def study(tmp_path: Path) -> TuneStudy:
    made = setup()
    begun = TuneStudy(folder=tmp_path / "study", setup=made).begin()
    for one in history(made, 14):
        begun.remember(one)
    begun.close()
    return begun


def test_a_study_reads_back_as_it_was_written(study: TuneStudy) -> None:
    again = TuneStudy.read(study.folder)
    assert asdict(again.setup) == asdict(study.setup)
    assert again.setup.space == study.setup.space
    assert again.runs == study.runs
    assert again.setup.identity == study.setup.identity


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"number": 0}, "no trial 0"),
        ({"point": {"train.lr": 99.0}}, "train.lr"),
        ({"point": {"data.pairs": "/etc/passwd"}}, "KeyError"),
        ({"outcome": "won"}, "outcome"),
    ],
)
def test_a_journal_of_somebody_else_is_refused(
    study: TuneStudy, change: dict[str, Any], problem: str
) -> None:
    line = json.loads((study.folder / "trials.jsonl").read_text().splitlines()[0]) | change
    (study.folder / "trials.jsonl").write_text(json.dumps(line) + "\n")
    with pytest.raises(DataMissing, match=problem):
        TuneStudy.read(study.folder)


def test_a_trial_is_shorter_and_evaluated_on_the_hold_out(tmp_path: Path) -> None:
    made = replace(setup(sets=("evaluate.metric=mrr@10",)), share=0.5)
    point = {**made.start_point, TOWER: "mlp", "tower.query.hidden": 256, "train.epochs": 4}
    point["tower.query.dropout"] = 0.1
    path = tmp_path / "trial.toml"
    path.write_text(trial_toml(made, 2, point))
    config = resolve(path).config
    steps = 4 * (18_000 // 512) // 2
    assert (config.data.hold_out, config.train.steps) == (0.1, steps)
    assert config.evaluate.every == look_steps(steps)[0]
    assert config.evaluate.metric == "mrr@10"
    assert (config.evaluate.patience, config.supervise.remedies) == (0, False)
    assert config.tower.query.options() == {"hidden": 256, "dropout": 0.1}


def test_trial_1_is_the_users_own_configuration(tmp_path: Path) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text(
        "gates = [{at = 'epoch 1', need = 'recall@10 >= 0.9'}]\n[tower.query]\nname = 'gru'\n"
        "hidden = 77\n[train]\nlr = 0.5\n[negatives]\nrelative_margin = 'none'\n"
    )
    made = setup(toml=mine)
    (tmp_path / "trial.toml").write_text(trial_toml(made, 1, {}))
    own, first = resolve(mine).config, resolve(tmp_path / "trial.toml").config
    for section in ("tower", "miner", "negatives", "loss", "device", "memory"):
        assert getattr(first, section) == getattr(own, section)
    assert first.train == own.train.model_copy(update={"steps": made.start_steps})
    assert own.gates and not first.gates


def test_options_of_a_tower_go_with_the_tower() -> None:
    made = setup()
    start = {**made.start, TOWER: "gru", "tower.query.hidden": 77, DOC_TOWER: "identity"}
    own = replace(made, start=start)
    assert values_of(own, {TOWER: "linear"}).get("tower.query.hidden") is None
    assert values_of(own, {TOWER: "gru", "train.lr": 1.0})["tower.query.hidden"] == 77


def test_the_best_configuration_holds_what_was_given_and_what_was_found(
    study: TuneStudy, tmp_path: Path
) -> None:
    write_best(study)
    text = study.best_toml.read_text()
    best = study.best
    assert best is not None and best.number > 1
    assert resolve(study.best_toml).config.train.lr == best.point["train.lr"]
    written = tomllib.loads(text)
    assert "evaluate" not in written, "defaults are left out"
    assert f"trial {best.number} of ttf tune" in text
    write_best(TuneStudy.read(study.folder))
    assert study.best_toml.read_text() == text


def test_of_equal_trials_the_users_wins() -> None:
    trials = [trial(2, {}, 0.5), trial(1, {}, 0.5), replace(trial(3, {}, 0.9), outcome="cut")]
    best = best_of(trials)
    assert best is not None and best.number == 1


def test_the_page_and_the_document_tell_all_trials(study: TuneStudy) -> None:
    write_best(study)
    document = finish.result(
        study, {"status": "finished", "metrics": {"recall@10": 0.4}}, "done", 3
    )
    assert len(document["trials"]) == 14
    assert document["best"]["score"] >= document["start"]
    assert document["run"]["metrics"] == {"recall@10": 0.4}
    json.dumps(document, allow_nan=False)
    hostile = replace(study.runs[3], reason="<script>alert(1)</script>", incidents=("<b>",))
    study.runs[3] = hostile
    page = finish.write_page(study).read_text()
    assert "<script>" not in page and "<b>," not in page
    assert "What mattered" in page and "ended at 1/4" in page
    assert words.verdict(study).startswith("Trial ")
    assert "cut off" not in words.verdict(study)
    study.runs.append(replace(trial(15, {}, 0.1), outcome="cut"))
    assert "without the last one, which was cut off when the time was used up" in words.verdict(
        study
    )


def test_a_page_of_a_study_without_a_trial_says_so(tmp_path: Path) -> None:
    begun = TuneStudy(folder=tmp_path / "study", setup=setup()).begin()
    begun.close()
    assert "No trial has finished yet" in finish.rewrite_page(begun.folder, None).read_text()


@pytest.mark.parametrize("module", [facts, settings, space, time_left, words, _charts])
def test_the_examples_are_right(module: ModuleType) -> None:
    found = doctest.testmod(module)
    assert found.attempted and not found.failed


@pytest.mark.parametrize("name", ["best", "runs"])
def test_a_folder_of_runs_that_is_a_link_is_refused_and_nothing_is_written_there(
    study: TuneStudy, tmp_path: Path, name: str
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (study.folder / name).symlink_to(elsewhere)
    for take in (TuneStudy.read, TuneStudy.open):
        with pytest.raises(EntryRefused, match="symbolic link"):
            take(study.folder)
    assert not any(elsewhere.iterdir())
