"""A reproducer is code that somebody will run: nothing of a received run may become code in it."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest

from ttf.tools.report.bundle._reproduce import Reproducer, reproducers
from ttf.tools.report.page import read_run

_CODE = "L\nimport os; os.system('id > P')\rimport os\x0b\x0c\x85\u2028\nr'''"
_GOOD: dict[str, Any] = {
    "platform": "Linux",
    "python": "3.11.7",
    "versions": {"torch": "2.13.0+cpu", "numpy": "2.4.6"},
}


def made(folder: Path, *, device: str = "cpu", number: str = "", **manifest: Any) -> Reproducer:
    folder.mkdir()
    (folder / "run.toml").write_text(f"[device]\nname = {json.dumps(device)}\n")
    (folder / "manifest.json").write_text(json.dumps({**_GOOD, **manifest}))
    found = {"class": "segfault", "phase": "forward", "process": "trainer"}
    if number:
        (folder / "summary.json").write_text(json.dumps({"incidents": [{**found, "id": number}]}))
    else:
        (folder / "incidents" / "001").mkdir(parents=True)
        (folder / "incidents" / "001" / "incident.json").write_text(json.dumps(found))
    (script,) = reproducers(read_run(folder))
    return script


@pytest.mark.parametrize(
    "hostile",
    [
        {"platform": _CODE, "device": "'''#"},
        {"python": _CODE},
        {"versions": {"torch": _CODE}},
        {"versions": {"torch": "2; id > P", "numpy": "2 $(id)"}},
        {"number": _CODE},
        {"number": "coding: utf-7 +AAo-import os"},
        {"number": "../../x"},
    ],
    ids=repr,
)
def test_texts_of_a_run_stay_comments_of_its_reproducer(
    hostile: dict[str, Any], tmp_path: Path
) -> None:
    good, bad = made(tmp_path / "good"), made(tmp_path / "bad", **hostile)
    assert ast.dump(ast.parse(bad.text.encode())) == ast.dump(ast.parse(good.text.encode()))
    head = bad.text.partition('"""')[0].splitlines()
    assert all(line.startswith("# ") for line in head)
    pins = next((line for line in head if "pip install" in line), "")
    assert not set(pins) & set(";$(|&<>")
    assert "/" not in bad.name
    assert "coding" not in "".join(head[:2])
