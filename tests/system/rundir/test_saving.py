"""Checkpoints beside the training: what is saved, when it is told, and how a bad disk is met."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import psutil
from tests.conftest import wait_until
from tests.kit.fixtures.durability import Forker
from tests.unit.rundir.test_saving import root  # noqa: F401

from ttf.rundir.flight_record import read_flight


def test_a_process_stopped_in_a_checkpoint_write_is_seen_from_outside(
    forker: Forker, root: Path, ram: Path
) -> None:
    flight = ram / "flight.bin"
    child = forker.fork(root, "checkpoint.write:3:stop", flight=str(flight), stop=2)
    forker.wait_until_ready()
    idle = read_flight(flight)
    assert idle is not None
    assert idle.saving_since_s is None
    forker.go()
    process = psutil.Process(child)
    try:
        wait_until(lambda: process.status() == psutil.STATUS_STOPPED)
        stopped = read_flight(flight)
        assert stopped is not None
        assert stopped.saving_since_s is not None
        assert idle.monotonic_s <= stopped.saving_since_s <= time.monotonic()
    finally:
        process.send_signal(signal.SIGCONT)
    ended = forker.ended()
    assert (ended.status, ended.acknowledged) == (0, 2)
    after = read_flight(flight)
    assert after is not None
    assert after.saving_since_s is None
