"""metrics.jsonl: each step once, whatever the disk does."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.kit.small_run import steps_logged

from ttf.errors import StorageError
from ttf.rundir import durable, metrics_log
from ttf.rundir.failpoints import Failpoint
from ttf.rundir.metrics_log import MetricsLog


def write_log(path: Path, records: list[dict[str, Any]]) -> None:
    log = MetricsLog(path, None)
    for record in records:
        log.write(record)
    log.sync()
    log.close()


def lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_new_run_starts_the_file_anew(ram: Path) -> None:
    path = ram / "metrics.jsonl"
    path.write_text("of another time")
    write_log(path, [{"type": "step", "step": 1, "loss": float("inf")}])
    assert lines(path) == [{"type": "step", "step": 1, "loss": None}]


def test_a_resumed_run_drops_what_its_checkpoint_does_not_know(ram: Path) -> None:
    path = ram / "metrics.jsonl"
    kept: list[dict[str, Any]] = [{"type": "eval", "step": 0}, {"type": "mining", "step": 0}]
    kept += [{"type": "step", "step": step} for step in (1, 2, 3)] + [{"type": "eval", "step": 3}]
    dropped = [{"type": "mining", "step": 3}, {"type": "step", "step": 4}]
    write_log(path, kept + dropped)
    log = MetricsLog(path, 3)
    assert log.steps_kept == 3
    log.write({"type": "step", "step": 4, "again": True})
    log.close()
    assert lines(path) == [*kept, {"type": "step", "step": 4, "again": True}]


@pytest.mark.parametrize(
    "torn", ['{"step": 2, "lo', '{"step": 2}', "\0\0\0\0\n", "17\n", "null\n", "\udcff\udcfe\n"]
)
def test_a_line_that_was_not_finished_is_dropped(ram: Path, torn: str) -> None:
    path = ram / "metrics.jsonl"
    path.write_bytes(b'{"step": 1}\n' + torn.encode(errors="surrogateescape"))
    log = MetricsLog(path, 9)
    log.write({"step": 10})
    log.close()
    assert lines(path) == [{"step": 1}, {"step": 10}]


@pytest.mark.parametrize("fault", ["enospc", "eio", "short"])
@pytest.mark.parametrize("operation", ["write", "fsync"])
@pytest.mark.parametrize("times", ["1", "1+"])
def test_a_disk_that_fails_for_a_while_costs_no_line(
    ram: Path, operation: str, fault: str, times: str
) -> None:
    path = ram / "metrics.jsonl"
    said: list[str] = []
    log = MetricsLog(path, None, retry_s=60, say=said.append)
    for step in (1, 2):
        log.write({"step": step})
    log.sync()
    with durable.intercepted(Failpoint.parse(f"metrics.{operation}:{times}:{fault}")):
        for step in (3, 4):
            log.write({"step": step, "text": "x" * 50})
            log.sync()
    for step in (5, 6):
        log.write({"step": step})
    log.sync()
    assert steps_logged(ram) == [1, 2, 3, 4, 5, 6]
    log.close()
    assert steps_logged(ram) == [1, 2, 3, 4, 5, 6]
    if fault == "short":
        assert said == []
    else:
        assert "keeps the lines in memory" in said[0]
        assert "No line is missing" in said[-1]
    assert [p.name for p in ram.iterdir()] == ["metrics.jsonl"]


def test_after_a_failed_fsync_the_file_is_written_anew_from_memory(ram: Path) -> None:
    path = ram / "metrics.jsonl"
    log = MetricsLog(path, None, retry_s=60)
    log.write({"step": 1})
    log.sync()
    log.write({"step": 2})
    before = path.stat().st_ino
    with durable.intercepted(Failpoint.parse("metrics.fsync:1:eio")):
        log.sync()
    # What a kernel may do with pages whose write failed: the file is as it was on disk.
    path.write_bytes(path.read_bytes().splitlines(keepends=True)[0] + bytes(12))
    log.write({"step": 3})
    log.sync()
    assert path.stat().st_ino != before
    assert steps_logged(ram) == [1, 2, 3]
    log.write({"step": 4})
    log.close()
    assert steps_logged(ram) == [1, 2, 3, 4]


def test_without_patience_a_failing_write_is_raised_at_once(ram: Path) -> None:
    log = MetricsLog(ram / "metrics.jsonl", None)
    with (
        durable.intercepted(Failpoint.parse("metrics.write:1:enospc")),
        pytest.raises(StorageError, match=r"metrics\.jsonl: No space left"),
    ):
        log.write({"step": 1})
    log.write({"step": 2})
    log.close()
    assert steps_logged(ram) == [1, 2], "the line it failed with is not lost"


def test_a_checkpoint_is_told_of_every_failure(ram: Path) -> None:
    log = MetricsLog(ram / "metrics.jsonl", None, retry_s=60, say=pytest.fail)
    log.write({"step": 1})
    with (
        durable.intercepted(Failpoint.parse("metrics.fsync:1:eio")),
        pytest.raises(StorageError, match="Input/output"),
    ):
        log.make_durable()
    log.make_durable()
    log.close()


def test_what_is_held_back_is_bounded(ram: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_log, "_MOST_BYTES", 2000)
    log = MetricsLog(ram / "metrics.jsonl", None, retry_s=1e9)
    with durable.intercepted(Failpoint.parse("metrics.write:1+:enospc")):
        with pytest.raises(StorageError, match="No space left"):
            for step in range(1000):
                log.write({"step": step})
        assert len(log._tail) < 2100
    log.close()


def test_lines_that_the_disk_never_took_are_counted_aloud(ram: Path) -> None:
    said: list[str] = []
    log = MetricsLog(ram / "metrics.jsonl", None, retry_s=60, say=said.append)
    log.write({"step": 1})
    with durable.intercepted(Failpoint.parse("metrics.write:1+:enospc")):
        log.write({"step": 2})
        log.write({"step": 3})
        log.close()
        log.close()
    assert "2 lines of" in said[-1]
    assert len(said) == 2


def test_a_long_run_syncs_by_itself_before_much_is_held(
    ram: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics_log, "_SYNC_AT_BYTES", 1000)
    log = MetricsLog(ram / "metrics.jsonl", None)
    for step in range(500):
        log.write({"step": step})
        assert len(log._tail) < 1000
    log.close()
    assert steps_logged(ram) == list(range(500))


def test_lines_written_while_another_thread_makes_them_durable_are_all_there(ram: Path) -> None:
    log = MetricsLog(ram / "metrics.jsonl", None, retry_s=60)
    ended = threading.Event()

    def again_and_again() -> None:
        while not ended.is_set():
            try:
                log.make_durable()
            except StorageError:
                continue

    thread = threading.Thread(target=again_and_again)
    with durable.intercepted(Failpoint.parse("metrics.fsync:3:eio")):
        thread.start()
        try:
            for step in range(3000):
                log.write({"step": step})
        finally:
            ended.set()
            thread.join()
    log.sync()
    log.close()
    assert steps_logged(ram) == list(range(3000))
