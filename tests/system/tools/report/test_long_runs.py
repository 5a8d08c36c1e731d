"""A page of the longest runs is small."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.kit.fixtures.report import incident, write_lines
from tests.kit.widely import wide
from tests.unit.tools.report.test_page import Checked, step

from ttf.tools.report.page import read_run, write_page


@wide
def test_a_run_of_200_000_steps_with_50_incidents_is_below_500_kb(tmp_path: Path) -> None:
    folder = tmp_path / "long"
    folder.mkdir()
    with (folder / "metrics.jsonl").open("w") as file:
        for number in range(1, 200_001):
            file.write(json.dumps(step(number)) + "\n")
            if number % 500 == 0:
                metrics = {f"recall@{k}": 0.5 for k in (1, 10, 100, 500)}
                file.write(json.dumps({"type": "eval", "step": number, "metrics": metrics}) + "\n")
                mined = {"type": "mining", "step": number, "yield": 0.5, "seconds": 3.0}
                file.write(json.dumps({**mined, "time": 1.7e9 + number}) + "\n")
    write_lines(
        folder / "memory.jsonl",
        [
            {"time": 1.7e9 + 20 * t, "step": 20 * t, "anon": 1e9, "shared": 0, "file": 1e10}
            for t in range(10_000)
        ],
    )
    for number in range(1, 51):
        about = folder / "incidents" / f"{number:03d}"
        about.mkdir(parents=True)
        evidence = [{"source": f"stderr:{n}", "text": "x" * 900} for n in range(30)]
        told = incident(
            "segfault", "forward", "trainer", evidence=evidence, time=1.7e9 + 4000 * number
        )
        (about / "incident.json").write_text(json.dumps(told))
        (about / "stderr.txt").write_text("<b>&" * 20_000)
    path = write_page(folder)
    assert path.stat().st_size < 500_000
    found = Checked(path.read_text())
    assert "During the run, it had 50 incidents (segfault 50 times)" in found.text
    assert "50 segfault" in found.text.replace("050", "50")
    run = read_run(folder)
    assert run.spent.total["compute"] == pytest.approx(200_000 * 0.4, rel=1e-6)
