"""The folders of a node's further trainers: whole run folders, inside the run's."""

from __future__ import annotations

from pathlib import Path

import pytest

from ttf.errors import ArtifactDamaged, EntryRefused
from ttf.rundir.rank_folders import add_documents, documents_of, inner_folder, rank_folder
from ttf.rundir.supervision import Journal

RUN_TOML = "[train]\nsteps = 3\n"


def test_the_first_rank_has_the_folder_of_the_run(tmp_path: Path) -> None:
    folder = inner_folder(tmp_path / "run")
    assert rank_folder(folder, 0) is folder
    assert rank_folder(folder, 2).path == folder.path / "ranks" / "2"


def test_a_rank_that_died_before_the_first_checkpoint_begins_anew(tmp_path: Path) -> None:
    """Its summary says that it failed; its journal, that nothing was saved."""
    own = rank_folder(inner_folder(tmp_path / "run"), 1)
    assert own.supervision.is_file() and Journal.read(own.supervision).checkpointed == -1


def test_the_documents_of_a_run_go_where_they_are_missing_and_replace_nothing(
    tmp_path: Path,
) -> None:
    folder = inner_folder(tmp_path / "run")
    assert documents_of(folder) == {}
    (folder.path / "manifest.json").write_text('{"format": 1}')
    (folder.path / "run.toml").write_text(RUN_TOML)
    own = rank_folder(folder, 1)
    (own.path / "manifest.json").write_text('{"format": 1, "ttf": "its own"}')
    add_documents(own, documents_of(folder))
    assert (own.path / "run.toml").read_text() == RUN_TOML
    assert "its own" in (own.path / "manifest.json").read_text()


@pytest.mark.parametrize("found", [{"run.toml": 1}, {"run.toml": "x" * (20 << 20)}])
def test_what_is_no_document_is_refused(tmp_path: Path, found: dict[str, object]) -> None:
    with pytest.raises(ArtifactDamaged, match=r"sent a run.toml that is none"):
        add_documents(inner_folder(tmp_path / "run"), found)


def test_other_names_than_those_two_are_never_written(tmp_path: Path) -> None:
    folder = inner_folder(tmp_path / "run")
    before = set(folder.path.rglob("*"))
    add_documents(folder, {"../evil": "x", "model/model.safetensors": "x"})
    assert set(folder.path.rglob("*")) == before
    assert not (tmp_path / "evil").exists()


def test_a_link_in_place_of_a_rank_folder_is_refused(tmp_path: Path) -> None:
    folder = inner_folder(tmp_path / "run")
    (tmp_path / "elsewhere").mkdir()
    (folder.path / "ranks").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(EntryRefused):
        rank_folder(folder, 1)
    assert not any((tmp_path / "elsewhere").iterdir())
