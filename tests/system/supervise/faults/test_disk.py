"""A disk that fails under a run: it goes on, waits, or ends with clear words; nothing is torn."""

from __future__ import annotations

import json
import os
import shutil
import signal
from typing import Any

import pytest
from tests.kit.faulty_run import MINED, FaultyPlace
from tests.kit.fixtures.faults import SmallDisk, read_only
from tests.kit.live_run import Ended
from tests.kit.widely import wide

from ttf.rundir.verified_folders import newest_step


def test_a_disk_that_is_full_for_a_while_costs_nothing(
    place: FaultyPlace, small_disk: SmallDisk, reference: Ended
) -> None:
    place.hold(12, 32)
    command = place.train(out=small_disk.path / "run")
    command.held(12)
    command.saved(10)
    small_disk.fill()
    command.go(12)
    command.held(32)
    assert "No space left on device" in command.err
    assert newest_step(command.run / "checkpoints") == 10
    small_disk.free()
    command.go(32)
    done = command.wait()
    done.assert_clean()
    assert done.code == 0, done.err
    assert done.digest == reference.digest
    assert done.summary["exact"] and done.summary["incidents"] == []
    assert done.steps_logged() == list(range(1, 41))
    curve = [json.loads(line) for line in (done.run / "memory.jsonl").read_text().splitlines()]
    assert curve
    log = (done.run / "log.txt").read_text()
    assert log.splitlines()[-1].endswith("--- ended: finished") and "\0" not in log


def test_a_disk_that_stays_full_ends_the_run_with_what_it_has(
    place: FaultyPlace, small_disk: SmallDisk, reference: Ended
) -> None:
    place.hold(12)
    command = place.train(out=small_disk.path / "run", settings={"checkpoint.retry_s": 1})
    command.held(12)
    command.saved(10)
    small_disk.fill()
    command.go(12)
    ended = command.wait()
    ended.assert_clean()
    assert ended.code == 8
    assert "No space left on device" in ended.err
    assert "ttf resume" in ended.err
    assert newest_step(ended.run / "checkpoints") == 10
    small_disk.free()
    done = place.resume(ended.run).wait()
    done.assert_clean()
    assert (done.code, done.digest) == (0, reference.digest), done.err
    assert done.steps_logged() == list(range(1, 41))


@wide  # another reason (tests/system/rundir/test_full_disk.py), answered like the disk that stays full
def test_a_folder_that_becomes_read_only_ends_the_run_with_what_it_has(place: FaultyPlace) -> None:
    place.hold(12)
    command = place.train(settings={"checkpoint.retry_s": 1})
    command.held(12)
    command.saved(10)
    with read_only(command.run / "checkpoints"):
        command.go(12)
        ended = command.wait()
    ended.assert_clean()
    assert ended.code == 8
    assert "read-only" in ended.err.lower()
    assert newest_step(ended.run / "checkpoints") == 10


def test_a_run_folder_that_is_deleted_ends_the_run_with_clear_words(place: FaultyPlace) -> None:
    place.hold(12)
    command = place.train(settings={"checkpoint.retry_s": 1})
    command.held(12)
    command.saved(10)
    while command.run.exists():  # the checkpoint thread may still be at work in it
        shutil.rmtree(command.run, ignore_errors=True)
    command.go(12)
    ended = command.wait()
    ended.assert_clean()
    assert ended.code == 8
    assert str(ended.run) in ended.err


def test_a_disk_that_is_full_from_the_start_is_refused(
    place: FaultyPlace, small_disk: SmallDisk
) -> None:
    small_disk.fill()
    ended = place.train(out=small_disk.path / "run").wait()
    ended.assert_clean()
    assert ended.code == 8
    assert "No space left on device" in ended.err
    assert not ended.run.exists()


@wide
def test_mining_waits_for_a_disk_that_is_full(
    place: FaultyPlace, small_disk: SmallDisk, mined_reference: Ended
) -> None:
    place.hold(18)
    command = place.train(out=small_disk.path / "run", settings=MINED)
    command.held(18)
    small_disk.fill(leave_kb=8)
    command.go(18)
    command.said("THE MINED CANDIDATES OF STEP 20 CANNOT BE WRITTEN")
    small_disk.free()
    done = command.wait()
    done.assert_clean()
    assert (done.code, done.digest) == (0, mined_reference.digest), done.err
    assert done.summary["exact"]


@wide
def test_a_run_whose_trainer_dies_on_a_full_disk_goes_on_when_there_is_room(
    place: FaultyPlace, small_disk: SmallDisk, reference: Ended
) -> None:
    place.hold(12)
    command = place.train(out=small_disk.path / "run")
    command.held(12)
    command.saved(10)
    small_disk.fill()
    os.kill(command.trainer(), signal.SIGKILL)
    command.said("THE RUN CANNOT CONTINUE YET")
    small_disk.free()
    done = command.wait()
    done.assert_clean()
    assert (done.code, done.digest) == (0, reference.digest), done.err
    assert done.summary["restarts"] == 1, (done.incidents, done.err)
    assert "could not write the incident" in done.err


@wide  # as the full disk above, which takes no incident either
def test_an_incident_that_cannot_be_written_does_not_stop_the_run(
    place: FaultyPlace, reference: Ended
) -> None:
    place.hold(12)
    command = place.train(env={"TTF_FAILPOINT": "incident.*:1+:eio"})
    command.held(12)
    command.saved(10)
    os.kill(command.trainer(), signal.SIGKILL)
    command.go(12)
    done = command.wait()
    done.assert_clean()
    assert "could not write the incident" in done.err
    assert (done.code, done.digest) == (0, reference.digest), done.err
    assert done.summary["restarts"] == 1 and done.summary["exact"]


AREAS = ("metrics", "checkpoint", "supervision", "summary", "model", "run", "manifest", "report")
WIDE = [
    f"{area}.{verb}:{first}+:{fault}"
    for area in (*AREAS, "*")
    for verb in ("*", "write", "rename")
    for first in (1, 3)
    for fault in ("eio", "enospc")
]


@wide
@pytest.mark.parametrize("failpoint", ["*:60+:enospc", "metrics.write:30+:eio", *WIDE])
def test_errors_of_the_disk_are_never_a_traceback_and_lose_nothing(
    failpoint: str, place: FaultyPlace, reference: Ended
) -> None:
    given: dict[str, Any] = {"settings": {"checkpoint.retry_s": 1}}
    ended = place.train(env={"TTF_FAILPOINT": failpoint}, **given).wait()
    ended.assert_clean()
    if ended.code == 0:  # what failed is not needed: the journal, the page
        assert ended.digest == reference.digest
        return
    assert ended.code == 8, ended.err
    # Whichever file could not be written.
    assert "ttf resume" in ended.err or not list((ended.run / "checkpoints").glob("step-*"))
    if not (ended.run / "run.toml").exists():
        return
    done = place.resume(ended.run).wait()
    done.assert_clean()
    assert (done.code, done.digest) == (0, reference.digest), done.err
