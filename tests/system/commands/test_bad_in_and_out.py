"""Bad inputs of `ttf data encode`, `data import`, `export` and `search --text`, a row each.

Every row ends with one message on standard error that names the thing, its exit code, no traceback,
and nothing half-written. Rows that start a process run with TTF_CHAOS=1.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.kit.bad_inputs import texts, vectors
from tests.kit.bad_inputs.row import Row
from tests.kit.fixtures.trained import place, trained
from tests.kit.widely import wide

if TYPE_CHECKING:
    from tests.conftest import Invoke

__all__ = ["place", "trained"]

ROWS = [*texts.rows(), *vectors.rows()]


@pytest.mark.parametrize(
    "row", [pytest.param(row, id=row.id, marks=[wide] if row.slow else []) for row in ROWS]
)
def test_bad_input_is_one_message_and_leaves_nothing(row: Row, place: Path, invoke: Invoke) -> None:
    if row.needs and importlib.util.find_spec(row.needs) is None:
        pytest.skip(f"{row.needs} is not installed")
    row.change(place)
    before = listing(place)
    done = invoke(row.argv)
    assert done.code == row.code, done.err
    assert done.out == ""
    assert done.err.count("error: ") == 1, done.err
    assert "Traceback" not in done.err
    message = done.err[done.err.index("error: ") :]
    for said in row.says:
        assert said in message, message
    assert listing(place) == before, "something half-written was left behind"


def listing(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_the_table_has_what_the_design_asks_for() -> None:
    assert len([row for row in ROWS if not row.slow]) >= 60
    assert len({row.id for row in ROWS}) == len(ROWS)
    assert {row.argv[0] for row in ROWS} == {"data", "export", "search"}
    assert {row.code for row in ROWS} == {2, 3}
