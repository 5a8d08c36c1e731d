"""A stranger's plugin that raises, aborts, segfaults or sleeps at import harms nobody who does not
name it."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from tests.conftest import FakeDistribution, RunTtf
from tests.kit.widely import wide

from ttf.data.synth import SynthShape, write_synth

FAULTS = {
    "raises": "raise RuntimeError('boom')",
    "aborts": "import os; os.abort()",
    "segfaults": "import ctypes; ctypes.string_at(0)",
    "sleeps": "import time; time.sleep(600)",
}
KINDS = (
    "tower",
    "miner",
    "storage",
    "device",
    "encoder",
    "exporter",
    "executor",
    "observer",
    "check",
)


@pytest.fixture
def evil(fake_plugins: FakeDistribution) -> FakeDistribution:
    """Every fault in a plugin of every kind, some under names that ttf has itself."""
    for fault, source in FAULTS.items():
        module = f"ttf_evil_{fault}"
        own = {f"{kind}.{fault}": module for kind in KINDS}
        taken = {"miner.exact": module, "tower.gru": module, "device.cpu": module}
        fake_plugins.add(f"ttf-evil-{fault}", own | taken | {"storage.npz": module})
        fake_plugins.module(module, source)
    return fake_plugins


@wide
def test_lists_helps_and_runs_that_do_not_name_them_are_unharmed(
    evil: FakeDistribution, run_ttf: RunTtf, tmp_path: Path
) -> None:
    """And the trace of the run shows the hooks of every process, and no module of theirs."""
    env = {"PYTHONPATH": str(evil.folder)}
    listed = run_ttf("plugins", "list", env=env)
    assert listed.code == 0
    assert all(f"ttf-evil-{fault}" in listed.out for fault in FAULTS)
    assert run_ttf("--help", env=env).code == 0
    assert run_ttf("train", "--help", env=env).code == 0
    paths = write_synth(tmp_path, SynthShape(pairs=64, val=8, seq_len=3, dim=8, bank=50, seed=0))
    words = ["--pairs", paths["pairs"], "--bank", paths["bank"], "--steps", 2, "--batch-size", 16]
    words += ["--set", 'observers=["jsonl"]', "--set", "miner.negatives=4"]
    words += ["--out", tmp_path / "run", "--json"]
    began = time.monotonic()
    run = run_ttf("train", *words, env=env | {"TTF_TRACE_PLUGINS": "1"})
    assert run.code == 0, run.err
    assert time.monotonic() - began < 600, "it slept with the plugin"
    assert run.json()["status"] == "finished"
    traced = [line for line in run.err.splitlines() if "trace " in line]
    assert any("ttf_step(record=StepRecord(step=2," in line for line in traced)
    assert any("ttf_run_finished(" in line for line in traced)
    assert sum("imported ttf_miners.exact_miner" in line for line in traced) == 2, "trainer, worker"
    assert not any("imported ttf_evil" in line for line in traced)
    assert run_ttf("report", tmp_path / "run", env=env).code == 0
    assert run_ttf("data", "inspect", paths["pairs"], env=env).code == 0


def test_who_names_one_hears_whose_it_is(
    evil: FakeDistribution, run_ttf: RunTtf, tmp_path: Path
) -> None:
    run = run_ttf(
        "train", "--miner", "raises", "--out", tmp_path / "run",
        env={"PYTHONPATH": str(evil.folder)},
    )  # fmt: skip
    assert run.code == 2
    assert "ttf-evil-raises 1.0 failed to load: RuntimeError: boom" in run.err
    assert "TTF_DISABLE_PLUGINS=ttf-evil-raises" in run.err


def test_a_file_ending_names_the_storage_of_its_name_and_no_other(
    fake_plugins: FakeDistribution, run_ttf: RunTtf, tmp_path: Path
) -> None:
    for name in ("parqet", "quills"):
        fake_plugins.add(f"ttf-{name}", {f"storage.{name}": f"ttf_evil_{name}"})
        fake_plugins.module(f"ttf_evil_{name}", f"raise RuntimeError('{name} was imported')")
    env = {"PYTHONPATH": str(fake_plugins.folder)}
    (tmp_path / "bank.quills").touch()
    asked = run_ttf("data", "inspect", tmp_path / "bank.quills", env=env)
    assert asked.code == 2
    assert "quills was imported" in asked.err and "parqet was imported" not in asked.err
    (tmp_path / "bank.vectors").touch()
    other = run_ttf("data", "inspect", tmp_path / "bank.vectors", env=env)
    assert other.code == 2
    assert "was imported" not in other.err
    assert ".quills" in other.err and ".npz" in other.err
