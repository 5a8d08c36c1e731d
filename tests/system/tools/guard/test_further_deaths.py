"""Deaths that the table of causes was not made with: nearly all are named, none wrongly for certain."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from tests.kit.faulty_run import FaultyPlace
from tests.kit.fixtures.guard import Start
from tests.kit.further_deaths import FURTHER, Further
from tests.kit.guarded_command import PYTHON, incident, ours
from tests.kit.planted_crashes import PLAIN, TRAIN
from tests.kit.widely import wide

pytestmark = [
    wide,
    pytest.mark.skipif(sys.platform != "linux", reason="the deaths are made for Linux"),
]
WRONG_AT_MOST = 1


@pytest.mark.parametrize("death", [d for d in FURTHER if d.under == "guard"], ids=lambda d: d.name)
def test_a_further_death_under_guard(
    death: Further, start: Start, tmp_path: Path, rows: list[tuple[str, ...]]
) -> None:
    torch = "torch." in death.code or "model." in death.code
    (tmp_path / "train.py").write_text((TRAIN if torch else PLAIN) + death.code)
    words = [PYTHON, "train.py"]
    if death.shell:
        words = ["bash", "-c", death.shell.format(python=PYTHON)]
    guarded = start(words, "--out", "watch", *death.options)
    code = guarded.wait()
    found = incident(tmp_path / "watch")
    _note(rows, death, found, str(code), ours(guarded.err))


@pytest.mark.parametrize("death", [d for d in FURTHER if d.under == "train"], ids=lambda d: d.name)
def test_a_further_death_in_a_run(
    death: Further, place: FaultyPlace, rows: list[tuple[str, ...]]
) -> None:
    (place.faults / "act-12").write_text(death.code)
    ended = place.train().wait()
    folder = min((ended.run / "incidents").glob("0*"))
    found = json.loads((folder / "incident.json").read_text())
    _note(rows, death, found, str(ended.code), ended.err)


def _note(
    rows: list[tuple[str, ...]],
    death: Further,
    found: dict[str, object],
    code: str,
    said: str,
) -> None:
    right = found["class"] in death.right
    row = (death.name, death.right[0], str(found["class"]), code, str(found["certain"]))
    rows.append((*row, "right" if right else "WRONG"))
    assert death.certain or not found["certain"], f"said for certain: {said}"
    assert right or not found["certain"], f"a wrong cause, said for certain: {said}"


def test_nearly_all_were_named(rows: list[tuple[str, ...]]) -> None:
    wrong = [row for row in rows if row[-1] == "WRONG"]
    assert len(wrong) <= WRONG_AT_MOST, wrong
