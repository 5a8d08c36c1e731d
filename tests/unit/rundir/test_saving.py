"""Checkpoints beside the training: what is saved, when it is told, and how a bad disk is met."""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import torch
from tests.conftest import wait_until
from tests.kit.recorded_disk import recorded
from tests.kit.small_run import begin, recovered, snapshot

from ttf.errors import StorageError, storage_error
from ttf.rundir import durable, verified_folders
from ttf.rundir.failpoints import Failpoint
from ttf.rundir.flight_record import FlightRecorder
from ttf.training import checkpoint
from ttf.training.checkpoint_writer import Saver


@dataclass
class Told:
    """What a saver said, and which steps it called saved."""

    said: list[str] = field(default_factory=list)
    saved: list[int] = field(default_factory=list)


@contextmanager
def saving(
    root: Path,
    retry_s: float = 60.0,
    flight: Path | None = None,
    stop: threading.Event | None = None,
) -> Iterator[tuple[Saver, Told]]:
    told = Told()
    saver = Saver(
        root / "checkpoints",
        keep=2,
        retry_s=retry_s,
        flight=FlightRecorder(flight),
        on_saved=lambda step, *_: told.saved.append(step),
        say=told.said.append,
        stop_asked=(stop or threading.Event()).is_set,
    )
    try:
        yield saver, told
    finally:
        saver.close()


def plain(step: int) -> checkpoint.Snapshot:
    """Needs no table."""
    found = snapshot(step)
    found.progress["table"] = ""
    return found


def settle(saver: Saver) -> None:
    wait_until(lambda: not saver.busy)


@contextmanager
def held(verb: str) -> Iterator[threading.Event]:
    """Operations of that kind wait until the event is set."""
    go = threading.Event()

    def wait(operation: durable.Operation, act: durable.Act) -> int:
        if operation.verb == verb:
            assert go.wait(60)
        return act(memoryview(operation.data))

    with durable.intercepted(wait):
        try:
            yield go
        finally:
            go.set()


@pytest.fixture
def root(ram: Path) -> Path:
    return begin(ram / "run")


def test_what_is_saved_is_the_state_at_the_call_whatever_the_training_does_next(
    root: Path,
) -> None:
    state = plain(3)
    wanted = {name: tensor.clone() for name, tensor in state.model.items()}
    with (
        saving(root) as (saver, told),
        held("mkdir") as go,
    ):
        assert saver.save(state)
        for tensors in (state.model, state.optimizer, state.bank):
            for tensor in tensors.values():
                tensor.zero_()
        state.progress["value"] = "later"
        assert saver.busy
        assert not saver.save(plain(4)), "one at a time"
        go.set()
        settle(saver)
        assert told.saved == [3]
    found = recovered(root)
    assert found.progress["value"] == 3
    assert all(torch.equal(found.model[name], value) for name, value in wanted.items())


def test_every_step_that_is_called_saved_is_on_disk_by_then(root: Path) -> None:
    intact: list[int] = []
    saver = Saver(
        root / "checkpoints",
        keep=2,
        retry_s=0,
        flight=FlightRecorder(None),
        on_saved=lambda step, path, _: intact.append(
            step if not verified_folders.problem_with(path) else -1
        ),
        say=pytest.fail,
    )
    try:
        for step in range(1, 5):
            assert saver.save(plain(step))
            settle(saver)
            assert saver.saved_step == step
    finally:
        saver.close()
    assert intact == [1, 2, 3, 4]
    names = sorted(path.name for path in (root / "checkpoints").iterdir())
    assert names == ["step-000000003", "step-000000004"]


def test_flush_returns_when_the_state_is_durable_and_writes_no_step_twice(root: Path) -> None:
    with saving(root) as (saver, told):
        assert saver.save(plain(5))
        path = saver.flush(plain(5))
        assert told.saved == [5]
        assert saver.flush(plain(5)) == path == verified_folders.path_of(root / "checkpoints", 5)
        saver.flush(plain(6))
        assert told.saved == [5, 6]
    assert recovered(root).step == 6


def test_a_disk_that_fails_once_is_said_and_the_next_checkpoint_goes_elsewhere(
    root: Path,
) -> None:
    with saving(root) as (saver, told), recorded() as done:
        saver.flush(plain(1))
        failing = Failpoint.parse("checkpoint.fsync:1:eio")
        with durable.intercepted(failing):
            assert saver.save(plain(2))
            settle(saver)
            saver.raise_if_failed()
            assert len(told.said) == 1
            assert "THE CHECKPOINT OF STEP 2 IS NOT WRITTEN" in told.said[0]
            assert "Input/output error" in told.said[0]
            assert recovered(root).step == 1
            assert not saver.retry_due, "not at once"
            assert saver.save(plain(3))
            settle(saver)
            saver.raise_if_failed()
        assert told.saved == [1, 3]
        assert "Checkpoints can be written again" in told.said[1]
    assert done
    assert not list(root.rglob(".tmp-*"))


def test_without_patience_the_first_failure_ends_the_run_and_says_how_to_go_on(
    root: Path,
) -> None:
    with saving(root, retry_s=0) as (saver, _):
        saver.flush(plain(7))
        with durable.intercepted(Failpoint.parse("checkpoint.write:1+:enospc")):
            saver.save(plain(8))
            settle(saver)
            with pytest.raises(StorageError) as caught:
                saver.raise_if_failed()
    error = caught.value
    assert int(error.exit_code) == 8
    for part in ("No checkpoint could be written since", "No space left", "step 7 is intact"):
        assert part in str(error)
    assert (
        error.hint == f"Free some space, or choose another folder. Then continue "
        f"the run: ttf resume {root}"
    )


def test_patience_ends_when_failures_go_on_for_longer(root: Path) -> None:
    with (
        saving(root, retry_s=0.05) as (saver, told),
        durable.intercepted(Failpoint.parse("checkpoint.rename:1+:eio")),
    ):
        saver.save(plain(1))
        settle(saver)
        saver.raise_if_failed()
        time.sleep(0.06)
        saver.raise_if_failed()  # nothing was tried since
        saver.save(plain(2))
        settle(saver)
        with pytest.raises(StorageError, match="There is no older checkpoint"):
            saver.raise_if_failed()
        with pytest.raises(StorageError):
            saver.save(plain(3))
    assert told.saved == []


def test_the_last_checkpoint_waits_for_a_disk_that_recovers(root: Path) -> None:
    with (
        saving(root, retry_s=60) as (saver, told),
        durable.intercepted(Failpoint.parse("checkpoint.rename:1:eio")),
    ):
        saver.flush(plain(4))
    assert told.saved == [4]
    assert "IS NOT WRITTEN" in told.said[0]
    assert "ttf tries again in 2 s" in told.said[1]
    assert recovered(root).step == 4


def test_the_last_checkpoint_gives_up_when_its_time_is_over(root: Path) -> None:
    with (
        saving(root, retry_s=0.3) as (saver, _),
        durable.intercepted(Failpoint.parse("checkpoint.*:1+:enospc")),
        pytest.raises(StorageError, match="No checkpoint could be written"),
    ):
        saver.flush(plain(4))


@pytest.mark.parametrize(("fails", "saved"), [("1", [4]), ("1+", [])])
def test_a_stop_ends_the_wait_for_a_disk_after_one_more_attempt(
    root: Path, fails: str, saved: list[int]
) -> None:
    stop = threading.Event()
    attempts = 0

    def refuse(operation: durable.Operation, act: durable.Act) -> int:
        nonlocal attempts
        if operation.name == "checkpoint.rename":
            attempts += 1
            stop.set()  # in the middle of an attempt, so the wait has not begun
            if fails == "1+" or attempts == 1:
                raise OSError(errno.EIO, "Input/output error")
        return act(memoryview(operation.data))

    with saving(root, retry_s=10**6, stop=stop) as (saver, told), durable.intercepted(refuse):
        if saved:
            saver.flush(plain(4))
        else:
            with pytest.raises(StorageError, match="No checkpoint could be written"):
                saver.flush(plain(4))
            assert attempts == 2
            with pytest.raises(StorageError):  # as the run ends: once more, and no wait
                saver.flush(plain(4))
            assert attempts == 3
    assert told.saved == saved


def test_metrics_are_durable_before_the_checkpoint_of_their_step_begins(root: Path) -> None:
    order: list[str] = []

    def note(operation: durable.Operation, act: durable.Act) -> int:
        order.append(operation.name)
        return act(memoryview(operation.data))

    with durable.intercepted(note):
        saver = Saver(
            root / "checkpoints",
            keep=2,
            retry_s=0,
            flight=FlightRecorder(None),
            on_saved=lambda *_: None,
            say=pytest.fail,
            sync_first=lambda: order.append("synced"),
        )
        saver.flush(plain(1))
        saver.close()
    assert order[0] == "synced"
    assert order.count("synced") == 1


def test_metrics_that_cannot_be_made_durable_hold_the_checkpoint_back(root: Path) -> None:
    def refuse() -> None:
        raise StorageError("metrics.jsonl is stuck")

    saver = Saver(
        root / "checkpoints",
        keep=2,
        retry_s=0,
        flight=FlightRecorder(None),
        on_saved=lambda *_: pytest.fail("nothing was saved"),
        say=lambda _: None,
        sync_first=refuse,
    )
    try:
        with pytest.raises(StorageError, match="stuck"):
            saver.flush(plain(1))
    finally:
        saver.close()
    assert not list((root / "checkpoints").iterdir())


def test_a_fault_of_ours_in_the_thread_is_raised_in_the_main_thread(root: Path) -> None:
    def broken(step: int, path: Path, seconds: float) -> None:
        raise ZeroDivisionError(f"{threading.current_thread().name} at {step}")

    saver = Saver(
        root / "checkpoints",
        keep=2,
        retry_s=60,
        flight=FlightRecorder(None),
        on_saved=broken,
        say=pytest.fail,
    )
    try:
        with pytest.raises(ZeroDivisionError, match="ttf-checkpoints at 1"):
            saver.flush(plain(1))
    finally:
        saver.close()


def test_tables_of_a_checkpoint_on_its_way_are_in_use(root: Path) -> None:
    from tests.kit.small_run import table

    table("table1").save(root / "candidates")
    with (
        saving(root) as (saver, _),
        held("mkdir") as go,
    ):
        assert saver.save(snapshot(3))
        assert saver.busy
        assert saver.table == "table1"
        assert verified_folders.tables_in_use(root / "checkpoints") == set()
        go.set()
        settle(saver)
        assert saver.table == "table1"
        assert verified_folders.tables_in_use(root / "checkpoints") == {"table1"}


def test_closing_lets_a_checkpoint_come_to_its_end(root: Path) -> None:
    with (
        durable.intercepted(Failpoint.parse("checkpoint.rename:1:sleep=0.2")),
        saving(root) as (saver, told),
    ):
        assert saver.save(plain(1))
    assert told.saved == [1]
    assert recovered(root).step == 1
    saver.close()  # a second time: nothing


def test_large_tensors_are_cut_and_come_back_whole(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint.parts_of, "__defaults__", (1000,))
    state = plain(1)
    state.optimizer = {
        "0.exp_avg": torch.arange(1200.0).reshape(30, 40),
        "0.step": torch.tensor(5.0),
        "1.exp_avg": torch.arange(700.0).to(torch.bfloat16),
        "2.row": torch.arange(400.0).reshape(1, 400),
    }
    path = checkpoint.save(root / "checkpoints", state)
    parts = sorted(path.glob("optimizer*.safetensors"))
    assert len(parts) > 5
    found = recovered(root).optimizer
    assert found.keys() == state.optimizer.keys()
    for name, tensor in state.optimizer.items():
        assert found[name].dtype == tensor.dtype
        assert torch.equal(found[name], tensor)
    parts[2].unlink()
    assert parts[2].name in verified_folders.problem_with(path)


@pytest.mark.parametrize(
    "code", [errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOSPC, errno.ENOLCK]
)
def test_the_hint_of_a_failed_write_names_no_option_that_its_command_may_lack(code: int) -> None:
    hint = storage_error(OSError(code, os.strerror(code)), "run").hint
    assert "another folder" in hint and "--" not in hint
