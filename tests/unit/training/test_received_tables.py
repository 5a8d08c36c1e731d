"""The tables of a run that somebody else made, or changed."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ttf.data.embedding.table import EmbeddingTable
from ttf.data.embedding.tower_rows import TableRows
from ttf.errors import ArtifactDamaged, ConfigError, EntryRefused
from ttf.training.tables import Tables
from ttf.training.towers import TwoTower

ROWS, DIM = 20, 4
FACTS = {"rows": ROWS, "dim": DIM, "seed": 0, "version": 0}


def tables_of(name: str = "rows") -> Tables:
    wish = TableRows(name=name, optimizer="adagrad", lr=0.05)
    tower = SimpleNamespace(table=wish, rows=None)
    model = cast("TwoTower", SimpleNamespace(query=tower, doc=tower))
    return Tables(model, ROWS, DIM, 1 << 20)


def table_at(path: Path) -> dict[Path, int]:
    """A table, and when its files were written."""
    with EmbeddingTable(path, rows=ROWS, dim=DIM, budget="1MB"):
        pass
    return written(path)


def written(path: Path) -> dict[Path, int]:
    return {file: file.stat().st_mtime_ns for file in [path, *path.rglob("*")]}


@pytest.mark.parametrize("name", ["../victim", "/srv/victim", "..", ".", "", "a/b", ".git", "\x1b"])
def test_a_name_that_is_a_path_is_no_name_of_a_table(name: str) -> None:
    with pytest.raises(ConfigError, match="cannot be the name of a table"):
        TableRows(name=name, optimizer="adagrad", lr=0.05)


@pytest.mark.parametrize("link", ["tables", "tables/rows"])
def test_no_table_of_a_run_is_opened_through_a_link(tmp_path: Path, link: str) -> None:
    victim, run = tmp_path / "victim", tmp_path / "run"
    before = table_at(victim / "rows")
    (run / link).parent.mkdir(parents=True)
    (run / link).symlink_to(victim if link == "tables" else victim / "rows")
    with pytest.raises(EntryRefused, match="symbolic link"):
        tables_of().open(run, 0, {})
    with pytest.raises(EntryRefused, match="symbolic link"):
        tables_of().open_newest(run, {"rows": FACTS})
    assert written(victim / "rows") == before


def test_a_model_whose_rows_are_missing_is_refused_and_gets_no_others(tmp_path: Path) -> None:
    with pytest.raises(ArtifactDamaged, match="The trained rows of this model are missing"):
        tables_of().open_newest(tmp_path, {"rows": FACTS})
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(
    "document",
    [None, [], {}, {"rows": 7}, {"rows": {**FACTS, "rows": "20"}}, {"rows": {"rows": ROWS}}],
)
def test_facts_of_a_table_that_do_not_fit_are_refused(tmp_path: Path, document: Any) -> None:
    table_at(tmp_path / "tables" / "rows")
    with pytest.raises(ArtifactDamaged, match="does not describe the table 'rows'"):
        tables_of().open_newest(tmp_path, document)


def test_a_model_opens_its_own_rows(tmp_path: Path) -> None:
    table_at(tmp_path / "tables" / "rows")
    with tables_of() as tables:
        tables.open_newest(tmp_path, {"rows": FACTS})
        assert tables.facts(0) == {"rows": {**FACTS, "version": 0}}
