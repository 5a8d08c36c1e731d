"""events.jsonl: what a program that follows a run finds in it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.kit.observed_runs import (
    CONFIG,
    begin,
    eval_record,
    lines,
    step_record,
)

from ttf.errors import StorageError
from ttf.rundir import durable
from ttf.rundir.failpoints import Failpoint
from ttf_observers import jsonl_sink as sink

pytestmark = pytest.mark.usefixtures("_closed_after")


def start(run: Path, resumed_from: int = 0) -> None:
    sink.ttf_run_started(run_dir=run, config=CONFIG, resumed_from=resumed_from)


def train(first: int, last: int) -> None:
    for step in range(first, last + 1):
        sink.ttf_step(record=step_record(step))


def logged(run: Path, event: str = "step") -> list[int]:
    return [line["step"] for line in lines(run, event)]


def test_what_is_done_again_is_cut_and_starts_and_incidents_stay(tmp_path: Path) -> None:
    start(begin(tmp_path))
    sink.ttf_evaluated(record=eval_record(0))
    train(1, 3)
    sink.ttf_incident(incident={"class": "segfault", "process": "miner", "step": 3})
    with (tmp_path / "events.jsonl").open("ab") as file:
        file.write(b'{"event": "step", "st')
    start(begin(tmp_path, 2), resumed_from=2)
    train(3, 3)
    assert [line["event"] for line in lines(tmp_path)] == [
        *("run_started", "evaluated", "step", "step", "incident"),
        *("run_started", "step"),
    ]
    assert logged(tmp_path) == [1, 2, 3]


def test_a_run_that_died_before_its_first_checkpoint_begins_the_file_anew(tmp_path: Path) -> None:
    for last in (3, 2):
        start(begin(tmp_path))
        sink.ttf_evaluated(record=eval_record(0))
        train(1, last)
    assert logged(tmp_path, "evaluated") == [0]
    assert logged(tmp_path) == [1, 2]


def test_a_run_that_was_stopped_before_its_first_step_keeps_its_first_evaluation(
    tmp_path: Path,
) -> None:
    start(begin(tmp_path))
    sink.ttf_evaluated(record=eval_record(0))
    start(begin(tmp_path, 0))
    train(1, 1)
    assert (logged(tmp_path, "evaluated"), logged(tmp_path)) == ([0], [1])


def test_numbers_that_are_not_finite_are_null(tmp_path: Path) -> None:
    start(begin(tmp_path))
    sink.ttf_step(record=step_record(1, mined=float("nan")))
    assert lines(tmp_path, "step")[0]["extra"] == {"mined": None}


def test_lines_that_the_disk_never_took_are_told_of_at_the_end(tmp_path: Path) -> None:
    config = {"checkpoint": {"retry_s": 60.0}}
    sink.ttf_run_started(run_dir=begin(tmp_path), config=config, resumed_from=0)
    with (
        durable.intercepted(Failpoint.parse("events.write:1+:enospc")),
        pytest.raises(StorageError, match="No space left"),
    ):
        train(1, 1)
        sink.ttf_run_finished(run_dir=tmp_path, summary={})


def test_it_can_be_used_everywhere() -> None:
    assert sink.availability().ok
