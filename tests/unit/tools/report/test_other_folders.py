"""Pages of what is no finished run: of a guard, without an end, very long, damaged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.kit.fixtures.report import incident, write_lines
from tests.unit.tools.report.test_page import Checked, page, run_dir

from ttf.tools.report.page import is_reportable, page_of, read_run

__all__ = ["run_dir"]


def test_a_guarded_command_has_a_page(guard_dir: Path) -> None:
    found = page(guard_dir)
    assert "The command ended after 29.0 s with exit code 139 (SIGSEGV)." in found.text
    assert "It had an incident (segfault)." in found.text
    assert "python train.py --name 'a b'" in found.text
    assert "The process used an invalid memory address." in found.text
    assert "entries of environment.json" in found.text
    titles = [svg["aria-label"] for svg in found.all("svg")]
    assert "Memory use (limit 4.0 GB)" in titles and "What happened when" in titles


def test_a_guard_that_is_at_work_has_a_page(guard_dir: Path) -> None:
    (guard_dir / "summary.json").unlink()
    assert "The command is still running" in page(guard_dir).text


def test_incidents_are_marked_on_the_axis_of_time_and_lead_to_their_card(guard_dir: Path) -> None:
    found = page(guard_dir)
    targets = {a["href"] for a in found.all("a")}
    assert targets == {"#incident-001"}
    assert "incident-001" in {div.get("id") for div in found.all("div")}
    assert "Dashed lines: incidents. segfault (001)." in found.text


def test_a_run_with_nothing_but_its_configuration_has_a_page(run_dir: Path) -> None:
    for path in run_dir.iterdir():
        if path.name != "run.toml":
            path.unlink()
    text = page(run_dir).text
    assert "This run has only its configuration" in text
    assert "train.lr0.0005--set" in text


def test_a_run_without_an_end_says_how_far_it_came_and_how_to_go_on(run_dir: Path) -> None:
    (run_dir / "summary.json").unlink()
    (run_dir / "checkpoints" / "step-000000750").mkdir(parents=True)
    text = page(run_dir).text
    assert "The run has no record of its end, at step 1,000" in text
    assert "Everything up to step 750 is saved, and ttf resume continues from there." in text


def test_a_run_that_goes_on_says_so(run_dir: Path) -> None:
    (run_dir / "summary.json").unlink()
    (run_dir / ".owner").write_text("1")
    text = page(run_dir).text
    assert "running" in text and "The run is in progress as process 1, at step 1,000." in text


def test_the_story_tells_of_what_was_survived(run_dir: Path) -> None:
    folder = run_dir / "incidents" / "001"
    folder.mkdir(parents=True)
    (folder / "incident.json").write_text(json.dumps(incident("segfault", "mining", "trainer")))
    text = page(run_dir).text
    assert "The run finished after 1,000 steps (8.0 epochs) in 10:12." in text
    assert "recall@10 rose from 0.100 to 0.500." in text
    assert "During the run, it had an incident (segfault); 4 steps were computed twice." in text
    assert "The results are bitwise equal to those of an uninterrupted run." in text


def test_time_that_nobody_kept_account_of_is_shown_as_such(run_dir: Path) -> None:
    text = page(run_dir).text
    assert "computing6:4065.4%" in text  # 1,000 steps of 0.4 s in 612 s
    assert "evaluating5.0 s0.8%" in text
    assert "mining45.0 s7.4%" in text
    assert "untracked2:4226.5%" in text
    assert "wall time10:12" in text


def test_negatives_are_compared_with_positives_at_each_refresh(run_dir: Path) -> None:
    lines = [
        {"type": "mining", "step": n, "yield": 0.5, "negative_score": 0.3, "positive_score": 0.8}
        for n in (0, 100, 200)
    ]
    write_lines(run_dir / "metrics.jsonl", lines)
    found = page(run_dir)
    assert "Hardness of the negatives" in [svg["aria-label"] for svg in found.all("svg")]
    assert "mined negatives" in found.text


@pytest.mark.parametrize(
    "damage",
    [
        b"",
        b"\x00" * 4096,
        b"[" * 100_000,
        b'{"step": 1e400}',
        b'{"type": "step", "step": 1e308, "loss": -1e308, "seconds": 1e308}\n',
        b'{"type": "eval", "step": "x", "metrics": [1, 2]}\n{"type": "mining", "time": "y"}\n',
        b'{"type": "step", "step": 99999999999999999999, "loss": 1}\n',
        b'{"status": ["a"], "incidents": 7, "metrics": 3, "deviations": "x", "exact": 1}',
        b"\xff\xfe{\x00}\x00",
    ],
    ids=range(9),
)
@pytest.mark.parametrize(
    "name", ["metrics.jsonl", "memory.jsonl", "summary.json", "manifest.json", "run.toml"]
)
def test_damage_to_any_file_leaves_a_page(run_dir: Path, name: str, damage: bytes) -> None:
    (run_dir / name).write_bytes(damage)
    Checked(page_of(read_run(run_dir)).decode())


def test_an_incident_that_is_damaged_is_listed(run_dir: Path) -> None:
    (run_dir / "incidents" / "001").mkdir(parents=True)
    (run_dir / "incidents" / "001" / "incident.json").write_bytes(b"\xff{")
    (run_dir / "incidents" / "002").mkdir()
    odd = {"class": 7, "evidence": "x", "remedies": {"a": 1}, "time": 1e300, "step": "x"}
    (run_dir / "incidents" / "002" / "incident.json").write_text(json.dumps(odd))
    text = page(run_dir).text
    assert "001unknown" in text and "0027" in text


def test_only_folders_of_runs_and_guards_can_be_reported_on(
    tmp_path: Path, guard_dir: Path
) -> None:
    assert is_reportable(guard_dir)
    (tmp_path / "pairs.npz").touch()
    assert not is_reportable(tmp_path)
