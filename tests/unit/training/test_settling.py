"""Device options left at "auto": written into run.toml and the manifest, and kept on resume."""

from __future__ import annotations

from pathlib import Path

import pytest

from ttf.config.resolve import Resolved, load_run_toml, resolve
from ttf.config.toml import dump
from ttf.machine import measured
from ttf.machine.processor import Processor
from ttf.training.auto_device_options import recorded, with_device
from ttf_devices.cpu import CpuOptions, CpuPolicy

KEY = "device.cpu.float32_matmul"
ZEN5 = Processor(
    arch="x86_64",
    vendor="AuthenticAMD",
    family=26,
    flags=frozenset({"avx2", "avx512f", "avx512_bf16"}),
)
AMX = Processor(
    arch="x86_64",
    vendor="GenuineIntel",
    family=6,
    flags=frozenset({"avx2", "avx512f", "avx512_bf16", "amx_bf16"}),
)


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TTF_HOME", str(tmp_path / "home"))


def on(processor: Processor, resolved: Resolved) -> tuple[Resolved, tuple[str, ...], CpuPolicy]:
    """What a run with this configuration settles on such a machine."""
    options = CpuOptions(**resolved.config.device.options_of("cpu"))
    policy = CpuPolicy(options, 1, processor)
    settled, notes = with_device(resolved, policy)
    return settled, notes, policy


def gone_on(settled: Resolved, folder: Path) -> Resolved:
    """The configuration as a process reads it that goes on with the run."""
    file = folder / "run.toml"
    file.write_text(dump(settled))
    return load_run_toml(file)


def test_auto_is_written_out_with_its_reason() -> None:
    settled, notes, _ = on(ZEN5, resolve(None, flags={"device": "cpu"}))
    assert settled.config.device.options_of("cpu")["float32_matmul"] == "medium"
    assert settled.origins[KEY].startswith("auto: table, AMD Zen 5: ")
    assert notes == ()


def test_what_was_asked_for_stays_with_its_origin() -> None:
    asked = resolve(None, [f"{KEY}=highest"], {"device": "cpu"})
    settled, notes, policy = on(ZEN5, asked)
    assert settled.config.device.options_of("cpu")["float32_matmul"] == "highest"
    assert settled.origins[KEY] == "--set" and notes == ()
    assert recorded(settled, policy)[KEY] == {"value": "highest", "origin": "--set"}


def test_a_run_that_goes_on_keeps_its_path_and_says_where_it_would_differ(tmp_path: Path) -> None:
    settled, _, _ = on(ZEN5, resolve(None, flags={"device": "cpu"}))
    again = gone_on(settled, tmp_path)
    same, notes, _ = on(ZEN5, again)
    assert notes == () and dump(same) == dump(settled)
    moved, (note,), policy = on(AMX, again)
    assert policy.float32_matmul == "medium"
    assert dump(moved) == dump(settled)
    assert note.startswith(f"{KEY} stays 'medium', as at the start of the run (table, AMD Zen 5: ")
    assert "would use 'highest'" in note and "AMX" in note


def test_tuning_changes_new_runs_and_no_begun_one(tmp_path: Path) -> None:
    fresh = resolve(None, flags={"device": "cpu"})
    begun, _, _ = on(AMX, fresh)
    measured.save_row(
        measured.TunedRow(
            fingerprint="this",
            date="2026-11-18",
            torch="2",
            threads=1,
            float32="medium",
            why="twice as fast",
            measured=(),
            bf16_gain=None,
        )
    )
    new, _, _ = on(AMX, fresh)
    assert new.config.device.options_of("cpu")["float32_matmul"] == "medium"
    assert new.origins[KEY].startswith("auto: measured on this machine on ")
    kept, (note,), policy = on(AMX, gone_on(begun, tmp_path))
    assert policy.float32_matmul == "highest" and "stays 'highest'" in note
    assert kept.config.device.options_of("cpu")["float32_matmul"] == "highest"


def test_another_run_like_it_asks_for_what_the_first_one_settled(tmp_path: Path) -> None:
    settled, _, _ = on(ZEN5, resolve(None, flags={"device": "cpu"}))
    file = tmp_path / "run.toml"
    file.write_text(dump(settled))
    other, notes, policy = on(AMX, resolve(file))
    assert policy.float32_matmul == "medium" and notes == ()
    assert other.origins[KEY].startswith("run.toml:")


def test_a_damaged_tuned_row_is_heard_once_and_not_by_a_run_that_goes_on(tmp_path: Path) -> None:
    measured.row_file().parent.mkdir(parents=True)
    measured.row_file().write_text("{")
    settled, (note,), _ = on(ZEN5, resolve(None, flags={"device": "cpu"}))
    assert "gemm.json" in note and "float32 products: medium" in note
    _, notes, _ = on(ZEN5, gone_on(settled, tmp_path))
    assert notes == ()
