"""What a real run that crashed twice records, and what its page makes of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.unit.tools.report.test_page import Checked

from ttf.tools.report.page import page_of, read_run


def lines(run: Path, kind: str) -> list[dict[str, Any]]:
    every = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    return [line for line in every if line["type"] == kind]


def test_the_metrics_hold_what_the_page_shows(crashed_run: Path) -> None:
    mined = lines(crashed_run, "mining")
    assert [line["step"] for line in mined] == [0, 20, 40]
    assert all(line["negative_score"] < line["positive_score"] for line in mined)
    assert all(
        line["time"] > 1.7e9 for kind in ("mining", "eval") for line in lines(crashed_run, kind)
    )
    saved = lines(crashed_run, "checkpoint")
    assert saved and saved[-1]["step"] == 60
    assert all(line["seconds"] >= 0 and line["time"] > 1.7e9 for line in saved)
    assert sum(line["seconds"] for line in saved) > 0


def test_the_manifest_holds_what_was_typed_and_the_shapes(crashed_run: Path) -> None:
    manifest = json.loads((crashed_run / "manifest.json").read_text())
    assert Path(manifest["command"][0]).name == "train.py"
    assert {k: manifest["data"][k] for k in ("bank_dim", "query_dim", "query_steps")} == {
        "bank_dim": 16,
        "query_dim": 16,
        "query_steps": 5,
    }


def test_its_page_tells_what_ran_and_what_happened(crashed_run: Path) -> None:
    run = read_run(crashed_run)
    found = Checked(page_of(run).decode())
    assert "The run finished after 60 steps" in found.text
    assert (
        "During the run, it had 2 incidents (segfault, killed) and was restarted 2 times"
        in found.text
    )
    assert "train.py" in found.text and "<secret-token>" in found.text
    assert "query towergru (hidden 16" in found.text
    assert "devicecpu (auto: " in found.text
    titles = [svg["aria-label"] for svg in found.all("svg")]
    for title in (
        "Hardness of the negatives",
        "What happened when",
        "Time by phase during the run",
    ):
        assert title in titles
    assert {a["href"] for a in found.all("a")} == {"#incident-001", "#incident-002"}
    assert "The process was started 3 times." in found.text
    assert 0 < run.spent.tracked < run.summary["wall_s"]
