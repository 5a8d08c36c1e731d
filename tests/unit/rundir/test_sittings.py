"""The starts of a run by a person: counted, and their time is not lost with a killed supervisor."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ttf.rundir.durable import write_json
from ttf.rundir.supervision import Journal, Sitting
from ttf.tools.report.page._read import RunFiles
from ttf.tools.report.page._story import story


def test_the_time_of_a_killed_supervisor_is_counted_up_to_its_last_sign() -> None:
    first = Journal().begun(1000.0, None)
    again = first.begun(5000.0, last_sign=1837.0)
    assert again.wall_s == 837.0 and [s.ended for s in again.sittings] == ["", ""]
    ended = again.with_end("stopped")
    third = ended.begun(9000.0, last_sign=8000.0)
    assert third.wall_s == 837.0, "the pause after an orderly end is nobody's time"


def test_a_clock_that_jumped_takes_no_time_away() -> None:
    noted = Journal(wall_s=60.0).begun(5000.0, None)
    assert noted.begun(6000.0, last_sign=100.0).wall_s == 60.0
    assert noted.begun(5010.0, last_sign=1e12).wall_s == 70.0


def test_it_comes_back_as_it_was_also_from_an_earlier_version(tmp_path: Path) -> None:
    path = tmp_path / "supervision.json"
    journal = Journal(restarts=2).begun(1.0, None).with_end("failed")
    write_json(path, journal.document())
    assert Journal.read(path) == journal
    old: dict[str, Any] = json.loads(path.read_text())
    del old["sittings"]
    path.write_text(json.dumps(old))
    assert Journal.read(path).restarts == 2 and Journal.read(path).sittings == ()


def test_the_report_tells_what_happened_to_ttf_itself() -> None:
    def told(*ends: str) -> str:
        sittings = tuple(Sitting(began=0.0, wall_before_s=0.0, ended=end) for end in ends)
        return story(
            RunFiles(name="r", summary={"status": "finished", "steps": 9}, sittings=sittings)
        )

    assert "continued" not in told("finished") and "continued" not in told()
    assert "It was continued once: ttf itself was killed once." in told("", "finished")
    assert (
        "It was continued 3 times: it was stopped on request 2 times, ttf itself was killed once."
        in told("stopped", "", "stopped", "finished")
    )
