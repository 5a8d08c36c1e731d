"""A value that somebody changed in the run.toml of a run, between two starts, is found and stays known."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from ttf.config.resolve import Resolved, resolve
from ttf.config.toml import dump
from ttf.rundir.run_folder import RunFolder
from ttf.training.configurations import changed_by_hand, note_written


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[RunFolder]:
    made = RunFolder.new(tmp_path / "run")
    made.manifest.write_text(json.dumps({"seed": 0}))
    write(made, resolve(None, ["train.lr=0.001", "tower.query.name=mlp"]))
    yield made
    made.close()


def write(folder: RunFolder, resolved: Resolved) -> None:
    note_written(folder, resolved.config)
    folder.config.write_text(dump(resolved))


def edit(folder: RunFolder, before: str, after: str) -> None:
    text = folder.config.read_text()
    assert before in text
    folder.config.write_text(text.replace(before, after))


def test_what_ttf_wrote_is_not_changed_by_hand(folder: RunFolder) -> None:
    assert changed_by_hand(folder) == []
    write(folder, resolve(None, ["train.lr=0.001", "tower.query.name=mlp", "train.shards=8"]))
    assert changed_by_hand(folder) == []
    assert json.loads(folder.manifest.read_text())["seed"] == 0


def test_a_value_that_decides_the_numbers_is_named_at_this_start_and_at_every_later_one(
    folder: RunFolder,
) -> None:
    edit(folder, "lr = 0.001", "lr = 0.003")
    text = "train.lr is 0.003 in run.toml, which was changed by hand; it was 0.001"
    assert changed_by_hand(folder) == [text]
    assert changed_by_hand(folder) == [text]  # killed before its first checkpoint
    edit(folder, "lr = 0.003", "lr = 0.001")
    assert changed_by_hand(folder) == [text]  # the steps in between had the other one


def test_what_a_person_may_change_between_two_starts_is_no_edit(folder: RunFolder) -> None:
    edit(folder, "keep = 2", "keep = 5")
    edit(folder, "max_restarts = 5", "max_restarts = 9")
    edit(folder, 'isolation = "process"', 'isolation = "none"')
    assert changed_by_hand(folder) == []


@pytest.mark.parametrize("manifest", ['{"seed": 0}', "", "[]", '{"configurations": 3}'])
def test_a_manifest_of_an_earlier_version_or_a_damaged_one_says_nothing(
    folder: RunFolder, manifest: str
) -> None:
    folder.manifest.write_text(manifest)
    edit(folder, "lr = 0.001", "lr = 0.003")
    assert changed_by_hand(folder) == []
