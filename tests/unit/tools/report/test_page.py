"""report.html from a run folder's files."""

from __future__ import annotations

import doctest
import json
import math
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from ttf.config.resolve import resolve
from ttf.config.toml import dump
from ttf.text.terminal import visible
from ttf.tools.report.charts import axes, curves
from ttf.tools.report.charts.figure import HEIGHT
from ttf.tools.report.page import _read, _story, page_of, read_run, write_page

VOID = {"meta", "br", "hr", "img", "line", "circle", "polyline"}


class Checked(HTMLParser):
    """Fails on tags that are not closed in order; keeps what the tests ask for."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)
        self.close()
        assert not self.open, f"not closed: {self.open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open.pop() == tag, f"</{tag}> closes something else"

    def handle_data(self, data: str) -> None:
        self.text += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attrs for name, attrs in self.seen if name == tag]


def write_lines(path: Path, lines: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def step(number: int) -> dict[str, Any]:
    return {
        "type": "step",
        "step": number,
        "epoch": 0,
        "loss": 2 + 6 * math.exp(-number / 200),
        "lr": 1e-3,
        "grad_norm": 1.0,
        "samples_per_s": 1200.0,
        "seconds": 0.4,
    }


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    """A finished run of 1,000 steps."""
    folder = tmp_path / "run-007"
    folder.mkdir()
    metrics: list[dict[str, Any]] = []
    for number in range(1001):
        if number:
            metrics.append(step(number))
        if number % 250 == 0:
            found = {"recall@10": number / 2000, "mrr@10": number / 4000}
            metrics.append(
                {"type": "eval", "step": number, "epoch": 0, "metrics": found, "seconds": 1.0}
            )
            metrics.append({"type": "mining", "step": number, "seconds": 9.0, "yield": 0.9})
    write_lines(folder / "metrics.jsonl", metrics)
    memory = {"anon": 600_000_000, "shared": 30_000_000, "file": 11_000_000_000}
    write_lines(
        folder / "memory.jsonl",
        [
            {"time": 1.7e9 + t, "step": t, **memory, "peak": 1, "limit": 24_000_000_000}
            for t in range(700)
        ],
    )
    (folder / "summary.json").write_text(
        json.dumps(
            {
                "status": "finished",
                "exit_code": 0,
                "steps": 1000,
                "epochs": 8.0,
                "metrics": {"recall@10": 0.5, "mrr@10": 0.25},
                "metrics_initial": {"recall@10": 0.1, "mrr@10": 0.05},
                "samples_per_s": 1234.5,
                "wall_s": 612.0,
                "peak_anon_mb": 812.3,
                "exact": True,
                "deviations": [],
                "restarts": 0,
                "incidents": [],
                "miner": "exact",
            }
        )
    )
    (folder / "run.toml").write_text(dump(resolve(None, ["train.lr=0.0005"], {})))
    (folder / "manifest.json").write_text(json.dumps({"versions": {"torch": "2.13.0"}}))
    return folder


def page(run_dir: Path) -> Checked:
    return Checked(write_page(run_dir).read_text())


def test_the_page_is_one_small_well_formed_offline_file(run_dir: Path) -> None:
    path = write_page(run_dir)
    assert path == run_dir / "report.html"
    assert path.stat().st_size < 500_000
    found = Checked(path.read_text())
    assert not found.all("script") and not found.all("link") and not found.all("img")
    assert "http" not in path.read_text()
    assert any(meta.get("name") == "viewport" for meta in found.all("meta"))
    assert "prefers-color-scheme" in found.text


def test_every_curve_has_a_chart_that_names_itself(run_dir: Path) -> None:
    titles = [svg["aria-label"] for svg in page(run_dir).all("svg")]
    assert titles == [
        "Loss",
        "Validation by step",
        "Change since the first evaluation",
        "Mining yield",
        "Memory use (limit 24.0 GB)",
        "Page cache of mapped files (freed when needed)",
        "What happened when",
        "Speed",
        "Time by phase during the run",
    ]


def test_lines_are_thinned_and_stay_inside_their_chart(run_dir: Path) -> None:
    for line in page(run_dir).all("polyline"):
        points = [tuple(map(float, p.split(","))) for p in (line["points"] or "").split()]
        assert len(points) <= curves.MOST_POINTS
        assert all(0 <= x <= 480 and 0 <= y <= HEIGHT for x, y in points)


def test_metrics_stand_before_and_after_with_their_change(run_dir: Path) -> None:
    text = page(run_dir).text
    assert "recall@100.1000.500+0.400 (x5.0)" in text
    assert "812 MB" in text and "1,000" in text


def change(run_dir: Path, **values: Any) -> None:
    path = run_dir / "summary.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def test_the_table_says_which_weights_were_kept_and_what_the_last_ones_reached(
    run_dir: Path,
) -> None:
    change(
        run_dir,
        kept_step=750,
        chosen_by="recall@10",
        metrics_last={"recall@10": 0.45, "mrr@10": 0.2},
    )
    text = page(run_dir).text
    assert "The saved weights are those of step 750 of 1,000, the best by recall@10." in text
    assert "metricbeforekept: step 750changelast: step 1,000" in text
    assert "recall@100.1000.500+0.400 (x5.0)0.450" in text


def test_a_run_that_did_not_improve_says_so(run_dir: Path) -> None:
    initial = {"recall@10": 0.1, "mrr@10": 0.05}
    change(run_dir, kept_step=0, chosen_by="recall@10", metrics=initial)
    text = page(run_dir).text
    assert (
        "Training did not improve recall@10; ttf keeps the weights from before the training."
        in text
    )


def test_a_run_that_failed_before_an_evaluation_shows_no_after(tmp_path: Path) -> None:
    found = {"recall@10": 0.1}
    write_lines(
        tmp_path / "metrics.jsonl", [{"type": "eval", "step": 0, "metrics": found}, step(1)]
    )
    summary = {"status": "failed", "exit_code": 4, "problem": "bad", "hint": "try a lower --lr"}
    every = dict.fromkeys(("metrics", "metrics_initial", "metrics_last"), found)
    (tmp_path / "summary.json").write_text(json.dumps({**summary, **every, "kept_step": None}))
    text = page(tmp_path).text
    assert "metricbeforerecall@100.100" in text
    assert "ended before the first evaluation after training" in text
    assert "What to do: try a lower --lr" in text


def test_a_run_that_was_stopped_shows_its_last_evaluation(run_dir: Path) -> None:
    last = {"recall@10": 0.5, "mrr@10": 0.2}
    change(run_dir, status="stopped", kept_step=None, metrics={"recall@10": 0.6}, metrics_last=last)
    assert "metricbeforestep 1,000changerecall@100.1000.500" in page(run_dir).text


def test_a_fault_of_ours_asks_to_be_reported(run_dir: Path) -> None:
    change(run_dir, status="failed", exit_code=70, problem="KeyError: 3")
    assert "Please report it" in page(run_dir).text


def test_no_two_sections_share_a_title_and_steps_are_whole(tmp_path: Path) -> None:
    found = {"type": "eval", "step": 2, "metrics": {"recall@10": 0.5}}
    write_lines(tmp_path / "metrics.jsonl", [step(1), step(2), found])
    (tmp_path / "summary.json").write_text(
        json.dumps({"status": "finished", "metrics": found["metrics"]})
    )
    html = write_page(tmp_path).read_text()
    titles = re.findall(r"<(?:h2|b)>([A-Z][^<]+)</", html)
    assert len(titles) == len(set(titles)) >= 4
    ticks = re.findall(r'text-anchor="(?:start|middle|end)">([\d.]+)</text>', html)
    assert "1.5" not in ticks and "2" in ticks


def test_what_was_set_is_shown_with_its_origin_and_defaults_are_folded(run_dir: Path) -> None:
    found = page(run_dir)
    assert "train.lr0.0005--set" in found.text
    assert "default values" in found.text
    assert "versions.torch2.13.0" in found.text


def test_everything_that_comes_from_outside_is_escaped(run_dir: Path) -> None:
    evil = '<script>alert("x")</script>&'
    summary = json.loads((run_dir / "summary.json").read_text())
    summary.update(
        status=evil,
        problem=evil,
        miner=evil,
        exact=False,
        deviations=[evil],
        metrics={evil: 0.5},
        incidents=[{"id": evil, "class": evil}],
    )
    (run_dir / "summary.json").write_text(json.dumps(summary))
    (run_dir / "manifest.json").write_text(json.dumps({evil: [evil]}))
    (run_dir / "run.toml").write_text(f"[data]\npairs = '{evil}'  # {evil}\n")
    with (run_dir / "metrics.jsonl").open("a") as file:
        for number in (1, 2):
            line = {"type": "eval", "step": number, "metrics": {evil: 0.1}}
            file.write(json.dumps(line) + "\n")
    found = page(run_dir)
    assert not found.all("script")
    assert evil in found.text


def test_control_characters_of_others_are_shown_and_not_obeyed(run_dir: Path) -> None:
    evil = "a\x1b]0;T\x07b\u202ec\x9b"
    change(run_dir, status=evil, problem=evil, hint=evil, notes=[evil], deviations=[evil])
    content = page_of(read_run(run_dir)).decode()
    assert visible(content) == content
    assert content.count("a\\x1b]0;T\\x07b\\u202ec\\x9b") >= 4


def test_an_empty_folder_has_a_page_too(tmp_path: Path) -> None:
    found = page(tmp_path)
    assert "unfinished" in found.text and not found.all("svg")


def test_a_run_of_one_step_is_drawn_as_points(tmp_path: Path) -> None:
    write_lines(tmp_path / "metrics.jsonl", [step(1)])
    found = page(tmp_path)
    assert len(found.all("circle")) >= 1 and not found.all("polyline")


def test_torn_lines_and_numbers_that_are_none_are_counted_or_left_out(run_dir: Path) -> None:
    with (run_dir / "metrics.jsonl").open("a") as file:
        file.write(json.dumps({**step(1001), "loss": None}) + "\n")
        file.write('{"type": "step", "step": 10')
    (run_dir / "summary.json").write_text('{"status": ')
    found = page(run_dir)
    assert "metrics.jsonl: 1 line(s) could not be read" in found.text
    assert "summary.json could not be read" in found.text
    assert found.all("polyline")


def test_a_failed_run_says_why_at_the_top(run_dir: Path) -> None:
    (run_dir / "summary.json").write_text(
        json.dumps({"status": "failed", "exit_code": 4, "problem": "the loss is not finite"})
    )
    assert "Ended with exit code 4: the loss is not finite" in page(run_dir).text


def test_long_runs_are_read_in_part_but_to_the_end(tmp_path: Path) -> None:
    write_lines(tmp_path / "metrics.jsonl", [step(n) for n in range(1, 30_001)])
    run = _read.read_run(tmp_path)
    assert len(run.steps) <= _read.MOST_LINES + 1
    assert (run.steps[0]["step"], run.steps[-1]["step"]) == (1, 30_000)
    assert write_page(tmp_path).stat().st_size < 100_000


def test_the_limit_is_drawn_where_it_is_near(run_dir: Path) -> None:
    lines = [
        {"time": float(t), "anon": 600_000_000, "shared": 0, "file": 0, "limit": 700_000_000}
        for t in range(10)
    ]
    write_lines(run_dir / "memory.jsonl", lines)
    assert "limit" in page(run_dir).text.replace("Memory use (limit", "")


def test_the_chart_helpers_do_as_documented() -> None:
    for module in (axes, curves, _read, _story):
        result = doctest.testmod(module)
        assert result.attempted >= 1 and result.failed == 0
