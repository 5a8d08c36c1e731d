"""What is read of a repeat, whatever its end was, and the command that it is."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from ttf.rundir.typed_json import dataclass_from
from ttf.tools.ab.repeat import read_sample, slope, thinned, train_words
from ttf.tools.ab.sample import Sample
from ttf.tools.ab.setup import ABSetup, Arm, Cell

BEGAN = 1_700_000_000.0
CELL = Cell(block=3, position=1, arm="b", seed=7)
SUMMARY: dict[str, Any] = {
    "status": "finished",
    "steps": 8,
    "samples_per_s": 500.0,
    "peak_anon_mb": 210.0,
    "metrics": {"recall@10": 0.9},
    "metrics_last": {"recall@10": 0.4, "mrr@10": 0.2},
    "weights_sha256": "abc",
    "exact": True,
}


def lines(path: Path, records: Iterable[Mapping[str, Any]]) -> None:
    path.write_text("".join(json.dumps(record) + "\n" for record in records) + '{"torn')


def incident(
    run: Path, number: int, name: str, step: int, lost: int, signum: int | None = None
) -> None:
    folder = run / "incidents" / f"{number:03d}"
    folder.mkdir(parents=True)
    document = {"class": name, "process": "trainer", "step": step, "lost_steps": lost}
    document["signal"] = signum
    (folder / "incident.json").write_text(json.dumps(document))


@pytest.fixture
def run(tmp_path: Path) -> Path:
    steps = [{"type": "step", "step": n, "loss": 10.0 - n} for n in range(1, 9)]
    evals = [
        {"type": "eval", "step": n, "time": BEGAN + 2 + n, "metrics": {"recall@10": n / 10}}
        for n in (0, 4, 8)
    ]
    lines(tmp_path / "metrics.jsonl", [evals[0], *steps[:4], evals[1], *steps[4:], evals[2]])
    memory = [
        {"time": BEGAN + n, "step": n, "anon": int(2e8 + 1e6 * n), "shared": 0} for n in range(9)
    ]
    lines(tmp_path / "memory.jsonl", memory)
    (tmp_path / "summary.json").write_text(json.dumps(SUMMARY))
    return tmp_path


def read(run: Path, code: int = 0) -> Sample:
    return read_sample(CELL, run, code, {"message": "why"} if code else None, BEGAN, 12.0)


def test_a_clean_repeat_is_read_whole(run: Path) -> None:
    sample = read(run)
    assert (sample.arm, sample.block, sample.position, sample.seed) == ("b", 3, 1, 7)
    assert (sample.outcome, sample.steps, sample.wall_s, sample.reason) == ("clean", 8, 12.0, "")
    assert sample.metrics == {"recall@10": 0.4, "mrr@10": 0.2}, "after equal steps, not the best"
    assert [(e.step, e.seconds) for e in sample.evaluated] == [(0, 2), (4, 6), (8, 10)]
    assert sample.loss[0] == (1, 9) and sample.loss[-1] == (8, 2)
    assert sample.memory[-1] == (8, 208)
    assert sample.memory_slope_mb_per_1k_steps is None, "nine steps tell nothing about a thousand"
    assert dataclass_from(Sample, json.loads(json.dumps(asdict(sample)))) == sample


def test_a_survivor_carried_out_more_steps_than_it_has(run: Path) -> None:
    incident(run, 1, "segfault", 5, 3)
    sample = read(run)
    assert (sample.outcome, sample.steps, sample.first_crash) == ("survived", 11, 5)
    assert sample.samples_per_s == 500


def test_of_a_lost_repeat_only_what_it_came_to_is_known(run: Path) -> None:
    incident(run, 1, "hang", 8, 6)
    summary = {**SUMMARY, "status": "failed", "steps": 2}
    (run / "summary.json").write_text(json.dumps(summary))
    sample = read(run, code=5)
    assert (sample.outcome, sample.reason, sample.steps) == ("lost", "why", 8)
    assert (
        sample.samples_per_s is sample.peak_anon_mb is sample.memory_slope_mb_per_1k_steps is None
    )
    assert sample.metrics == {} and not sample.weights_sha256
    assert len(sample.evaluated) == 3 and sample.memory


def test_a_folder_with_nothing_in_it_is_a_sample_too(tmp_path: Path) -> None:
    sample = read(tmp_path / "gone", code=-11)
    assert sample.outcome == "lost"
    assert [i.name for i in sample.incidents] == ["unknown"]
    assert (sample.loss, sample.memory, sample.steps) == ((), (), 0)


@pytest.mark.parametrize(
    ("name", "code", "outcome"),
    [
        ("killed", 5, "void"),
        ("disk-full", 8, "void"),
        ("segfault", 0, "survived"),
        ("non-finite", 4, "lost"),
        ("python-error", 70, "lost"),
        ("", 2, "invalid"),
        ("", 3, "invalid"),
        ("", 130, "void"),
        ("", 70, "void"),
    ],
)
def test_what_an_end_means(tmp_path: Path, name: str, code: int, outcome: str) -> None:
    if name:
        incident(tmp_path, 1, name, 1, 0)
    assert read(tmp_path, code).outcome == outcome


@pytest.mark.parametrize(
    ("code", "outcome"), [(0, "survived"), (5, "lost"), (-9, "lost"), (130, "void"), (143, "void")]
)
def test_a_repeat_that_an_unknown_sigkill_met_is_data(
    tmp_path: Path, code: int, outcome: str
) -> None:
    """A memory guard outside may kill one arm and not the other."""
    incident(tmp_path, 1, "killed", 1, 0, signum=9)
    sample = read(tmp_path, code)
    assert (sample.outcome, sample.incidents[0].name) == (outcome, "killed")


def test_a_repeat_that_was_asked_to_end_is_no_data(tmp_path: Path) -> None:
    incident(tmp_path, 1, "killed", 1, 0, signum=15)
    assert read(tmp_path, 0).outcome == "void"


def test_growth_is_of_the_longest_stretch_without_a_restart_after_its_warm_up() -> None:
    def stretch(first: int, count: int, per_step: float) -> list[tuple[float, int, float]]:
        return [(0.0, first + 10 * n, 500 * (n < 3) + 100 + per_step * n) for n in range(count)]

    assert slope(stretch(0, 40, 0.02)) == pytest.approx(2)
    assert slope([*stretch(0, 12, 9.0), *stretch(4, 40, 0.0)]) == 0
    assert slope(stretch(0, 6, 1.0)) is None and slope([]) is None
    assert slope(stretch(0, 10, 1.0)) is None, "of fewer than a hundred steps"


def test_curves_are_short_and_lose_no_peak() -> None:
    points = [(float(n), float(n == 777)) for n in range(1000)]
    found = thinned(points, max)
    assert len(found) == 100 and found[-1][0] == 999
    assert [y for _, y in found].count(1.0) == 1


def test_the_study_has_the_last_word_in_a_command() -> None:
    arm = Arm(name="b", toml="/b.toml", toml_sha256="", sets=("miner.k=3",), evaluate_every=5,
              slug="b")  # fmt: skip
    setup = ABSetup(arms=(arm,), sets=("miner.k=2",), cwd="/", steps=20, hang_timeout_s=9.0)
    said = train_words(setup, CELL)
    assert said[:7] == ["train", "/b.toml", "--seed", "7", "--no-remedies", "--steps", "20"]
    sets = [said[i + 1] for i, word in enumerate(said) if word == "--set"]
    assert sets[:2] == ["miner.k=2", "miner.k=3"]
    assert {"evaluate.every=5", "evaluate.patience=0", "gates=[]"} <= set(sets)
    assert "supervise.hang_timeout_s=9.0" in sets
