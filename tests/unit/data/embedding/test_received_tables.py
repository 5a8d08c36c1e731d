"""Folders that are no table, or hold files of others too."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from tests.kit.dense_table import DIM, open_table

from ttf.errors import ArtifactDamaged, ConfigError, EntryRefused

_SOME = torch.arange(5)


def _written(path: Path) -> Path:
    with open_table(path) as table:
        table.update(_SOME, torch.full((5, DIM), 3.0))
    return path


def test_files_of_others_are_neither_overwritten_nor_removed(tmp_path: Path) -> None:
    mine = {"rows.bin": "my rows", "journal/notes.txt": "my notes"}
    (tmp_path / "journal").mkdir()
    for name, text in mine.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(ConfigError, match=r"is not empty .*no embedding table"):
        open_table(tmp_path)
    assert {name: (tmp_path / name).read_text() for name in mine} == mine
    assert not (tmp_path / "table.json").exists()


def test_a_file_that_somebody_put_into_the_journal_stays(tmp_path: Path) -> None:
    table = _written(tmp_path / "table")
    (table / "journal" / "notes.txt").write_text("my notes")
    with open_table(table) as opened:
        assert torch.equal(opened.get(_SOME), torch.full((5, DIM), 3.0))
    assert (table / "journal" / "notes.txt").read_text() == "my notes"


def test_a_table_without_its_facts_is_refused_and_keeps_its_rows(tmp_path: Path) -> None:
    table = _written(tmp_path / "table")
    facts, rows = (table / "table.json").read_bytes(), (table / "rows.bin").read_bytes()
    (table / "table.json").unlink()
    with pytest.raises(ConfigError, match=r"it has no table\.json"):
        open_table(table)
    assert (table / "rows.bin").read_bytes() == rows
    (table / "table.json").write_bytes(facts)
    with open_table(table) as opened:
        assert torch.equal(opened.get(_SOME), torch.full((5, DIM), 3.0))


def test_a_journal_that_links_elsewhere_is_refused_and_nothing_there_is_removed(
    tmp_path: Path,
) -> None:
    table, elsewhere = _written(tmp_path / "table"), tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "000000001.rows").write_text("mine")
    (table / "journal").rmdir()
    (table / "journal").symlink_to(elsewhere)
    with pytest.raises(EntryRefused, match="symbolic link"):
        open_table(table)
    assert (elsewhere / "000000001.rows").read_text() == "mine"


def _piped(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _linked(path: Path) -> None:
    other = path.with_name("other.json")
    path.rename(other)
    path.symlink_to(other)


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_text("[" * 100_000),
        lambda path: path.write_text("[1]"),
        lambda path: path.write_text('{"applied": "1"}'),
        _piped,
        _linked,
    ],
    ids=["deep", "a list", "text", "a pipe", "a link"],
)
def test_facts_that_are_none_are_refused(damage: Callable[[Path], None], tmp_path: Path) -> None:
    table = _written(tmp_path / "table")
    damage(table / "table.json")
    with pytest.raises((ArtifactDamaged, EntryRefused)):
        open_table(table)


def test_a_process_that_died_while_it_made_the_table_leaves_one_that_opens(tmp_path: Path) -> None:
    table = tmp_path / "table"
    with open_table(table):
        pass
    (table / "rows.bin").write_bytes(b"")
    (table / "journal").rmdir()
    with open_table(table) as opened:
        opened.update(_SOME, torch.full((5, DIM), 3.0))
    with open_table(table) as opened:
        assert torch.equal(opened.get(_SOME), torch.full((5, DIM), 3.0))


@pytest.mark.parametrize("name", ["rows.bin", ".lock"])
def test_a_table_whose_file_is_a_link_is_refused_and_nothing_is_written_there(
    tmp_path: Path, name: str
) -> None:
    table = _written(tmp_path / "table")
    mine = tmp_path / "mine"
    mine.write_bytes((table / name).read_bytes())
    (table / name).unlink()
    (table / name).symlink_to(mine)
    before = mine.read_bytes(), mine.stat().st_mtime_ns
    with pytest.raises(EntryRefused, match="symbolic link"):
        open_table(table)
    assert (mine.read_bytes(), mine.stat().st_mtime_ns) == before


@pytest.mark.parametrize("facts", ['{"blocks": null}', '{"blocks": "1"}', "[]", "7"])
def test_a_segment_whose_manifest_says_something_else_is_refused(
    tmp_path: Path, facts: str
) -> None:
    table = open_table(tmp_path)
    table.update(_SOME, torch.full((5, DIM), 3.0))
    table.sync(keep=True)
    table.abandon()
    (manifest,) = (tmp_path / "journal").glob("*.json")
    found = json.loads(manifest.read_text())
    changed = json.loads(facts)
    manifest.write_text(json.dumps({**found, **changed} if isinstance(changed, dict) else changed))
    with pytest.raises(ArtifactDamaged, match="does not describe a segment"):
        open_table(tmp_path)


def test_a_flipped_bit_in_a_name_of_its_facts_is_damage_and_no_other_configuration(
    tmp_path: Path,
) -> None:
    open_table(tmp_path).close()
    facts = tmp_path / "table.json"
    facts.write_text(facts.read_text().replace('"optimizer"', '"optiiizer"'))
    with pytest.raises(ArtifactDamaged, match=r"table.json is damaged"):
        open_table(tmp_path)


@pytest.mark.parametrize("lost", ["", "rows.bin", "journal", "journal/000000001.rows"])
def test_what_is_missing_is_named_and_no_new_table_takes_its_place(
    lost: str, tmp_path: Path
) -> None:
    path = tmp_path / "table"
    with open_table(path) as table:
        table.update(_SOME, torch.full((5, DIM), 3.0))
        version = table.sync(keep=True)
        shutil.copytree(path, tmp_path / "killed")  # The journal is not yet in the base file.
    left = tmp_path / "killed" / lost
    shutil.rmtree(left) if left.is_dir() else left.unlink()
    with pytest.raises(ArtifactDamaged, match=f"{left.name if lost else 'the folder'} is missing"):
        open_table(tmp_path / "killed", at_version=version)
    assert not left.exists()
