"""The flight record: whatever its writer says, its reader understands."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from ttf.host.at_work import PluginWork
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
