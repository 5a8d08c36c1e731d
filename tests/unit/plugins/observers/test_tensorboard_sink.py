"""Event files that the real TensorBoard reads: nothing twice, nothing missing, whatever happens."""

from __future__ import annotations

import importlib.util
import json
import socket
import statistics
import time
from pathlib import Path

import pytest
from tests.kit.observed_runs import (
    CONFIG,
    begin,
    eval_record,
    read,
    step_record,
    steps,
    texts,
)
from tests.kit.recorded_disk import recorded

from ttf import PluginUnavailable
from ttf.errors import ArtifactDamaged, StorageError
from ttf.rundir import durable
from ttf.rundir.failpoints import Failpoint
from ttf_observers import tensorboard_sink as sink

pytestmark = pytest.mark.usefixtures("_needs_tensorboard", "_closed_after")


def files(run: Path) -> list[Path]:
    return sorted((run / "tensorboard").iterdir())


def start(run: Path, resumed_from: int = 0, retry_s: float = 0.0) -> None:
    config = {"checkpoint": {"retry_s": retry_s}}
    sink.ttf_run_started(run_dir=run, config=config, resumed_from=resumed_from)


def train(first: int, last: int) -> None:
    for step in range(first, last + 1):
        sink.ttf_step(record=step_record(step))


# --- real runs --------------------------------------------------------------------------------


# --- restarts ---------------------------------------------------------------------------------


@pytest.mark.parametrize("tail", [b"", b"\x10\0\0\0\0\0\0\0torn", bytes(512)], ids=len)
def test_what_a_dead_process_or_a_power_cut_left_at_the_end_is_passed_over(
    tmp_path: Path, tail: bytes
) -> None:
    run = begin(tmp_path, 100)
    start(begin(tmp_path / "other"))
    for _ in range(2):
        start(run, 100)
        train(101, 117)
        sink.ttf_evaluated(record=eval_record(117))
        with files(run)[-1].open("ab") as file:
            file.write(tail)
    start(run, 100)
    train(101, 104)
    found = read(run / "tensorboard")
    assert steps(found, "train/loss") == [101, 102, 103, 104]
    assert "val/recall@10" not in found.Tags()["scalars"] or steps(found, "val/recall@10") == []


def test_a_run_that_died_before_its_first_checkpoint_begins_anew(tmp_path: Path) -> None:
    run = begin(tmp_path)
    for last in (3, 2):
        start(run)
        sink.ttf_evaluated(record=eval_record(0))
        train(1, last)
    found = read(run / "tensorboard")
    assert steps(found, "val/recall@10") == [0]
    assert steps(found, "train/loss") == [1, 2]


def test_a_run_that_was_stopped_before_its_first_step_keeps_its_first_evaluation(
    tmp_path: Path,
) -> None:
    run = begin(tmp_path)
    start(run)
    sink.ttf_evaluated(record=eval_record(0))
    start(begin(run, 0))
    train(1, 2)
    found = read(run / "tensorboard")
    assert steps(found, "val/recall@10") == [0]
    assert steps(found, "train/loss") == [1, 2]


def test_incidents_at_one_step_are_all_named_by_the_newest(tmp_path: Path) -> None:
    run = begin(tmp_path, 100)
    for number, name in enumerate(("killed", "segfault"), start=1):
        incident = {"class": name, "process": "trainer", "step": 117, "phase": "mining"}
        incident["explanation"] = "It died."
        folder = run / "incidents" / f"{number:03d}"
        folder.mkdir()
        (folder / "incident.json").write_text(json.dumps(incident))
        start(run, 100)
        sink.ttf_incident(incident=incident)
    told = texts(read(run / "tensorboard"), "incident")
    assert [at for at, _ in told] == [100, 100]
    assert told[-1][1].startswith("**segfault** (trainer, step 117, mining): It died.")
    assert "- 001 killed (trainer)\n- 002 segfault (trainer)" in told[-1][1]


def test_files_are_named_after_the_time_in_order_and_name_no_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, now = begin(tmp_path, 5), 1_700_000_000.5
    for clock in (now, now, now - 3600):
        monkeypatch.setattr(time, "time", lambda clock=clock: clock)
        before = files(run) if (run / "tensorboard").exists() else []
        start(run, 5)
        assert files(run)[:-1] == before, "the new one is the last"
    names = [path.name for path in files(run)]
    assert names == [f"events.out.tfevents.{1_700_000_000 + n}.ttf" for n in range(3)]
    monkeypatch.undo()
    assert all(socket.gethostname().encode() not in path.read_bytes() for path in files(run))


# --- disks ------------------------------------------------------------------------------------


def test_a_disk_that_is_full_for_a_while_costs_no_event(tmp_path: Path) -> None:
    start(begin(tmp_path), retry_s=60)
    train(1, 3)
    with durable.intercepted(Failpoint.parse("tensorboard.write:1+:enospc")):
        train(4, 6)
        sink.ttf_checkpointed(step=6, path=tmp_path)
    train(7, 8)
    assert steps(read(tmp_path / "tensorboard"), "train/loss") == list(range(1, 9))


def test_events_that_the_disk_never_took_are_told_of_at_the_end(tmp_path: Path) -> None:
    start(begin(tmp_path), retry_s=60)
    with (
        durable.intercepted(Failpoint.parse("tensorboard.write:1+:enospc")),
        pytest.raises(StorageError, match="No space left"),
    ):
        train(1, 1)
        sink.ttf_run_finished(run_dir=tmp_path, summary={"status": "finished"})


def test_what_came_before_a_checkpoint_is_durable(tmp_path: Path) -> None:
    with recorded() as done:
        start(begin(tmp_path))
        train(1, 1)
        sink.ttf_checkpointed(step=1, path=tmp_path)
    named = [f"{o.name} {o.path.name}" for o in done]
    assert named.count(f"tensorboard.fsync {files(tmp_path)[0].name}") == 1
    assert {"tensorboard.fsync_dir tensorboard", f"tensorboard.fsync_dir {tmp_path.name}"} <= set(
        named
    )


def test_a_failed_fsync_and_a_folder_that_cannot_be_made_are_said(tmp_path: Path) -> None:
    start(begin(tmp_path / "one"))
    with (
        durable.intercepted(Failpoint.parse("tensorboard.fsync:1:eio")),
        pytest.raises(StorageError, match="Input/output"),
    ):
        sink.ttf_checkpointed(step=0, path=tmp_path)
    (begin(tmp_path / "two") / "tensorboard").touch()
    with pytest.raises(ArtifactDamaged, match="is a file, not a folder"):
        start(tmp_path / "two")


# --- the rest ---------------------------------------------------------------------------------


def test_a_missing_library_is_said_with_the_command_that_brings_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert sink.availability().ok
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    state = sink.availability()
    assert not state.ok and state.reason
    assert state.fix == 'pip install "twotower[tensorboard]"'
    with pytest.raises(PluginUnavailable, match=r'pip install "twotower\[tensorboard\]"'):
        sink.ttf_run_started(run_dir=begin(tmp_path), config=CONFIG, resumed_from=0)


def test_a_step_costs_far_less_than_a_millisecond(tmp_path: Path) -> None:
    start(begin(tmp_path))
    took = []
    for step in range(1, 501):
        record = step_record(step, mined=4.0, data_s=0.001, compute_s=0.015)
        began = time.thread_time()  # of the processor: others may have it meanwhile
        sink.ttf_step(record=record)
        took.append(time.thread_time() - began)
    assert statistics.median(took) < 0.0005


def test_a_link_in_a_received_folder_leads_nowhere(tmp_path: Path) -> None:
    run, other = begin(tmp_path / "run"), tmp_path / "other"
    other.mkdir()
    (run / "tensorboard").symlink_to(other)
    with pytest.raises(ArtifactDamaged, match="is a symbolic link"):
        start(run)
    assert not list(other.iterdir())
