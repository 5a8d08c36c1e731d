"""The flight record: whatever its writer says, its reader understands."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from ttf.host.at_work import PluginWork
from ttf.incidents.death import Place
from ttf.rundir.flight_record import FlightReader, FlightRecorder, Phase, read_flight

WORK = PluginWork(
    doing="importing", plugin="miner.a", distribution="b", version="1", module="c", brief=True
)


@pytest.mark.parametrize("clock", [-(10**18), 0, 4 * 10**18])
def test_any_clock_is_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: int) -> None:
    monkeypatch.setattr(time, "time_ns", lambda: clock)
    recorder = FlightRecorder(tmp_path / "flight.bin")
    recorder.enter(Phase.FORWARD, 3)
    flight = read_flight(tmp_path / "flight.bin")
    assert flight is not None
    assert (flight.time, flight.step, flight.phase) == (clock / 1e9, 3, "forward")


def test_the_plugin_at_work_and_the_first_step_are_seen_by_the_reader(tmp_path: Path) -> None:
    with FlightReader(tmp_path / "flight.bin") as reader:
        recorder = FlightRecorder(tmp_path / "flight.bin")
        assert reader.read().plugin is None and reader.read().began_s is None
        recorder.plugin_at_work(WORK)
        assert reader.read().plugin == WORK
        recorder.begins(40)
        recorder.plugin_at_work(None)
        assert reader.read().plugin is None
        assert reader.read().began_step == 40 and reader.read().began_s is not None


def test_a_note_of_a_plugin_that_is_no_note_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "flight.bin"
    FlightRecorder(path).plugin_at_work(WORK)
    data = bytearray(path.read_bytes())
    data[390:400] = b"\xff" * 10
    path.write_bytes(data)
    flight = read_flight(path)
    assert flight is not None and flight.plugin is None


def test_the_place_in_step_epoch_and_mining_round_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "flight.bin"
    recorder = FlightRecorder(path)
    recorder.epochs_have(100)
    recorder.mined(150, 200)
    recorder.enter(Phase.DATA, 157)
    recorder.divides(micro_batches=16)
    recorder.enter(Phase.FORWARD, micro_batch=6)
    recorder.enter(Phase.BACKWARD)
    recorder.plugin_at_work(WORK)
    place = Place.of(read_flight(path))
    assert (place.epoch, place.batch_of_epoch) == (2, 57 * 16 + 7)
    assert (place.micro_batch, place.micro_batches) == (7, 16), "of the forward pass before"
    assert (place.since_mining_steps, place.mined_for_steps) == (7, 50)
    assert place.since_mining_s is not None and 0 <= place.since_mining_s < 60
    recorder.enter(Phase.CHECKPOINT, 158)
    assert Place.of(read_flight(path)).micro_batch is None, "no micro-batch is at work"


def test_what_comes_before_the_first_step_of_a_process_is_its_start_up(tmp_path: Path) -> None:
    path = tmp_path / "flight.bin"
    recorder = FlightRecorder(path)
    recorder.begins(40)
    recorder.enter(Phase.EVALUATE, 40)
    assert Place.of(read_flight(path)).trained_s is None
    recorder.enter(Phase.DATA, 40)
    assert Place.of(read_flight(path)).trained_s is not None
    recorder.enter(Phase.EVALUATE, 41)
    assert Place.of(read_flight(path)).trained_s is not None


def test_a_record_of_an_older_version_has_no_place(tmp_path: Path) -> None:
    path = tmp_path / "flight.bin"
    FlightRecorder(path).enter(Phase.BACKWARD, 3)  # wrote zeros where the place is now
    assert Place.of(read_flight(path)) == Place() == Place.of(None)


def test_time_at_the_optimizer_boundary_is_told_from_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter(range(1, 10**6))
    recorder = FlightRecorder(tmp_path / "flight.bin")
    recorder.divides(micro_batches=4)
    recorder.enter(Phase.MINING, 7)  # an hour of mining would count for neither
    monkeypatch.setattr(time, "monotonic_ns", lambda: 10**9 * next(clock))
    before = recorder.read()
    recorder.enter(Phase.DATA, 7)
    for micro in range(4):
        recorder.enter(Phase.FORWARD, micro_batch=micro)
        recorder.enter(Phase.BACKWARD)
    recorder.enter(Phase.OPTIMIZER)
    recorder.enter(Phase.CHECKPOINT, 8)
    flight = recorder.read()
    # Each phase takes two ticks, as its beat reads the clock too: data, 2 x 2 at the edges, update.
    assert flight.at_boundary_s - before.at_boundary_s == 12
    assert flight.in_between_s - before.in_between_s == 8


def test_the_memory_of_a_device_is_told_and_that_of_a_cpu_is_none(tmp_path: Path) -> None:
    recorder = FlightRecorder(tmp_path / "flight.bin")
    recorder.device_holds({})
    assert (recorder.read().allocated, recorder.read().cached) == (None, None)
    recorder.device_holds({"allocated": 3, "reserved": 8, "free": 1, "total": 9})
    flight = read_flight(tmp_path / "flight.bin")
    assert flight is not None and (flight.allocated, flight.cached) == (3, 8)
    recorder.device_holds({"allocated": 0, "driver": 4})
    assert (recorder.read().allocated, recorder.read().cached) == (0, 4)
