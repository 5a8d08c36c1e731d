"""A new study or a new guard replaces nothing in a folder that the user named."""

from __future__ import annotations

from pathlib import Path

import pytest

from ttf.errors import ConfigError
from ttf.rundir.new_folder import refuse_taken
from ttf.tools.bisect.study import BisectStudy
from ttf.tools.guard.folder import GuardFolder


def test_a_guard_does_not_write_where_files_of_somebody_else_are(tmp_path: Path) -> None:
    (tmp_path / "summary.json").write_text("mine")
    with pytest.raises(ConfigError, match=r"contains summary\.json, but no record of ttf guard"):
        GuardFolder(tmp_path, print)
    assert [path.name for path in tmp_path.iterdir()] == ["summary.json"]
    GuardFolder(tmp_path / "new", print).close()
    (tmp_path / "new" / "summary.json").write_text("{}")
    GuardFolder(tmp_path / "new", print).close()


def test_a_study_does_not_begin_where_files_of_somebody_else_are(tmp_path: Path) -> None:
    (tmp_path / "result.json").write_text("mine")
    study = object.__new__(BisectStudy)
    study.folder = tmp_path
    with pytest.raises(ConfigError, match=r"contains result\.json, but no study"):
        study.begin()
    assert [path.name for path in tmp_path.iterdir()] == ["result.json"]


def test_an_empty_folder_is_nothing_to_lose_and_a_dead_link_is(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    refuse_taken(tmp_path, ["runs", "nothing"], "study")
    (tmp_path / "page").symlink_to("nowhere")
    with pytest.raises(ConfigError, match="contains page, but no study"):
        refuse_taken(tmp_path, ["runs", "page"], "study")
