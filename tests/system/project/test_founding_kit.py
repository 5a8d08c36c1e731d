"""The founding experiments are configurations that resolve, and the kit for a Mac leaves its file."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from tests.kit.widely import wide

from ttf.config.resolve import resolve
from ttf_devices.mps import MpsOptions, MpsPolicy

FOUNDING = Path(__file__).parents[3] / "examples" / "founding"
# Of each report: its micro-batch and how many of them a step has.
REPORTS = {
    "crashes.toml": (32, 16),
    "consultant.toml": (16, 1),
    "mps/24x4.toml": (24, 4),
    "openmp.toml": (8, 64),
}
CUTS = ("mps/96x1.toml", "mps/24x4.toml", "mps/6x16.toml")


@pytest.mark.parametrize("name", REPORTS)
def test_an_experiment_has_the_cut_of_its_report_and_is_not_fused(name: str) -> None:
    train = resolve(FOUNDING / name).config.train
    assert (train.batch_size, train.accumulate) == REPORTS[name]
    assert train.fuse == 1 or train.accumulate == 1
    assert name.partition("/")[0].removesuffix(".toml") in (FOUNDING / "README.md").read_text()


def test_the_cuts_have_equal_steps_on_mps_as_well() -> None:
    plans = []
    for name in CUTS:
        config = resolve(FOUNDING / name).config
        policy = MpsPolicy(MpsOptions(**config.device.options_of("mps")), 1)
        assert isinstance(config.train.batch_size, int)
        plans.append(policy.plan(config.train.batch_size, config.train.accumulate))
    assert [plan.accumulate for plan in plans] == [1, 4, 16]
    assert {plan.samples for plan in plans} == {96}


@wide
def test_the_kit_leaves_one_file_with_what_each_step_found(tmp_path: Path) -> None:
    out = tmp_path / "kit"
    words = [sys.executable, str(FOUNDING / "mac_kit.py"), "--quick", "--device", "cpu"]
    done = subprocess.run(
        [*words, "--out", str(out)], capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "everything ran on the CPU: this says nothing about MPS" in done.stdout
    with zipfile.ZipFile(out / "kit.zip") as kit:
        names = kit.namelist()
        told = json.loads(kit.read("attached/kit.json"))
        probes = [line for line in kit.read("metrics.jsonl").splitlines() if b'"probe"' in line]
        everything = b"".join(map(kit.read, names)).decode()
    assert {step["step"]: step["exit_code"] for step in told["steps"]} == {
        "doctor": 0,
        "data": 0,
        "100 steps": 0,
        "accumulation": 0,
    }
    assert probes and {"attached/doctor.json", "attached/accumulation.md"} <= {*names}
    assert str(tmp_path) not in everything
    counted = subprocess.run(
        [sys.executable, str(FOUNDING / "deaths.py"), str(out / "accumulation")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "accumulation: 24x4                    1      0             8" in counted.stdout
