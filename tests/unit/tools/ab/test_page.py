"""report.html of a study: whole, small, offline, and readable for whoever reads it how they can."""

from __future__ import annotations

import doctest
import re
import time
from dataclasses import replace
from pathlib import Path

import pytest
from tests.kit.studies_by_hand import (
    CASES,
    FACTS,
    TWO,
    page_of,
    study,
)
from tests.unit.tools.report.test_page import Checked

from ttf.tools.ab.analysis import Comparison
from ttf.tools.ab.page import _arms, _bars, _plots, _render, write_page


@pytest.mark.parametrize("case", CASES)
def test_the_page_is_one_small_well_formed_offline_file(tmp_path: Path, case: str) -> None:
    text = page_of(tmp_path, case)
    assert (tmp_path / "report.html").stat().st_size < 480_000
    found = Checked(text)
    assert not found.all("script") and not found.all("link") and not found.all("img")
    assert "http" not in text and "url(" not in text and "@import" not in text
    assert not any({"src", "href"} & attrs.keys() for _, attrs in found.seen)
    assert "nan" not in re.sub(r"<style>.*?</style>", "", text)
    assert any(meta.get("name") == "viewport" for meta in found.all("meta"))
    assert "prefers-color-scheme" in text


def test_the_verdict_stands_on_top(tmp_path: Path) -> None:
    text = page_of(tmp_path, "2 x 20")
    assert text.index("and that is not luck") < text.index("The arms") < text.index("Compared")


def test_every_drawing_says_in_words_what_it_shows(tmp_path: Path) -> None:
    labels = [str(svg["aria-label"]) for svg in Checked(page_of(tmp_path, "2 x 20")).all("svg")
              if svg.get("role") == "img"]  # fmt: skip
    drawn = [label.partition(".")[0] for label in labels if ": A" in label or ". A" in label]
    assert drawn == [
        "Repeats that have not crashed yet",
        "Throughput, samples/s",
        "Peak memory, MB",
        "Memory during the run, MB",
        "recall@10 against time",
        "recall@10 against steps",
        "Loss",
    ]
    assert "Repeats that have not crashed yet. A: 7 of 20 crashed; B: 0 of 20 crashed" in labels
    assert any(re.match(r"throughput: \+5.4%, -4.1% to \+6.7%; A is faster", s) for s in labels)


def test_arms_differ_by_letter_shape_and_dash_not_by_colour_alone(tmp_path: Path) -> None:
    text = page_of(tmp_path, "4 x 10")
    keys = re.findall(r'<span><svg class="key".*?</span>', text)[:4]
    assert [re.search(r"</svg>(\w) ", key)[1] for key in keys] == list("ABCD")  # type: ignore[index]
    shapes = {re.sub(r"[\d. -]", "", re.search(r'd="([^"]*)"', key)[1]) for key in keys}  # type: ignore[index]
    dashes = {m[1] if (m := re.search(r'dasharray="([^"]*)"', key)) else "" for key in keys}
    assert len(dashes) == 4 and len(shapes) >= 2


def test_there_is_a_dot_for_every_repeat_that_finished(tmp_path: Path) -> None:
    text = page_of(tmp_path, "every repeat lost")
    throughput = text[text.index("Throughput") : text.index("Peak memory")]
    assert len(re.findall(r"<title>A, block \d+", throughput)) == 12
    assert "B, block" not in throughput and "none finished" in throughput
    assert len(re.findall(r"crashed</title>", throughput)) == 4
    hollow = re.findall(r'class="o0"', throughput)
    assert len(hollow) == 4


def test_the_drawings_of_thousands_of_repeats_take_seconds() -> None:
    made, found = study(TWO, 1000)
    alike = [replace(sample, samples_per_s=5.0, peak_anon_mb=7.0) for sample in found]
    began = time.process_time()
    detail = _plots.Detail(points=600, rows=0, titles=False)
    figures = _plots.plots(_plots.Study(analysis=made, samples=alike, detail=detail))
    assert sum(bool(figure.shapes) for figure in figures) == 7
    assert time.process_time() - began < 2.0


def test_the_survival_curve_marks_those_that_ended_without_a_crash(tmp_path: Path) -> None:
    text = page_of(tmp_path, "2 x 20")
    figure = text[text.index("Repeats that have") : text.index("Throughput")]
    assert figure.count(' n"') == 2  # one place in each arm: all clean ones ended at step 100
    assert figure.count("<polygon") == 2


def test_without_a_crash_it_says_so(tmp_path: Path) -> None:
    text = page_of(tmp_path, "no crash")
    assert "No repeat crashed." in text and "Incidents by class" not in text


def test_every_sample_is_in_a_folded_table(tmp_path: Path) -> None:
    text = page_of(tmp_path, "every repeat lost")
    folded = text[text.index("All 24 samples") :]
    assert folded.count("<tr>") == 25
    assert "it crashed repeatedly, &lt;b&gt;really&lt;/b&gt;" in folded


def test_names_and_reasons_are_text_and_nothing_else(tmp_path: Path) -> None:
    text = page_of(tmp_path, "long and hostile names")
    assert "<script" not in text and "<b>really" not in text
    assert "&lt;script&gt;alert(" in text


def test_how_it_was_measured_has_what_the_caller_knows(tmp_path: Path) -> None:
    text = page_of(tmp_path, "2 x 20")
    after = text[text.index("How it was measured") :]
    for word in (*FACTS, *FACTS.values(), "7 to 26, one per block", "a pair", "survival"):
        assert word in after


def test_a_study_too_large_for_a_page_keeps_its_figures(tmp_path: Path) -> None:
    names = [f"arm {n}" for n in range(8)]
    made, found = study(names, 60)
    path = write_page(tmp_path, made, found, FACTS)
    assert path.stat().st_size < 480_000
    text = path.read_text()
    assert "in this folder contain all" in text and "Loss" in text


def test_a_class_of_incidents_is_counted_by_arm(tmp_path: Path) -> None:
    text = page_of(tmp_path, "every repeat lost")
    row = re.search(r"<td>segfault</td><td>trainer</td>(.*?)</tr>", text)
    assert row is not None and re.findall(r">(\d+)<", row[1]) == ["4", "12"]


def test_a_bar_lies_on_the_side_of_the_better_arm() -> None:
    made, _ = CASES["2 x 20"]
    faster = next(c for c in made.comparisons if c.metric == "samples_per_s")
    more_memory = next(c for c in made.comparisons if c.metric == "peak_anon_mb")

    def at(comparison: Comparison) -> float:
        [dot] = [shape for shape in _bars.bar(comparison) if shape.tag == "circle"]
        return float(dot.attributes["cx"])

    def classes(comparison: Comparison) -> set[str]:
        return {shape.attributes["class"] for shape in _bars.bar(comparison)}

    assert at(faster) > 108 > at(more_memory)
    assert "ci" in classes(faster)
    assert "ci" not in classes(replace(faster, ci=(None, None)))


def test_the_examples_hold() -> None:
    for module in (_arms, _bars, _plots, _render):
        assert doctest.testmod(module).failed == 0
