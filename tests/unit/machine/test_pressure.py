"""Stalls for memory: of the control group where it tells, else of the machine, else unknown."""

from __future__ import annotations

from pathlib import Path

import pytest

from ttf.machine.memory.pressure import StallMeter

TEXT = (
    "some avg10=0.00 avg60=0.00 avg300=0.00 total={some}\n"
    "full avg10=0.00 avg60=0.00 avg300=0.00 total=1\n"
)


def write(root: Path, name: str, some: int) -> Path:
    file = root / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(TEXT.format(some=some))
    return file


def group(root: Path) -> None:
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text("0::/job\n")


def test_the_group_comes_before_the_machine(tmp_path: Path) -> None:
    group(tmp_path)
    write(tmp_path, "proc/pressure/memory", 5)
    write(tmp_path, "sys/fs/cgroup/job/memory.pressure", 7)
    meter = StallMeter(tmp_path)
    assert meter.source == "/sys/fs/cgroup/job/memory.pressure"
    assert meter.of_machine, "the kernel's top group has no cgroup.events"
    (tmp_path / "sys/fs/cgroup/job/cgroup.events").write_text("populated 1\n")
    assert not meter.of_machine


def test_it_is_the_share_of_the_time_since_the_last_reading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.monotonic", lambda: 100.0)
    file = write(tmp_path, "proc/pressure/memory", 1_000_000)
    meter = StallMeter(tmp_path)
    assert meter.of_machine
    file.write_text(TEXT.format(some=1_500_000))
    assert meter.read(102.0) == pytest.approx(0.25)
    assert meter.read(102.1) == pytest.approx(0.25), "too soon to compare"
    assert meter.read(104.0) == 0.0


def test_a_system_that_does_not_tell_is_unknown_and_not_calm(tmp_path: Path) -> None:
    meter = StallMeter(tmp_path)
    assert meter.source == ""
    assert meter.read() is None


def test_a_group_that_is_gone_is_unknown(tmp_path: Path) -> None:
    file = write(tmp_path, "proc/pressure/memory", 5)
    meter = StallMeter(tmp_path)
    file.unlink()
    assert meter.read(1e9) is None
    assert meter.source == ""
