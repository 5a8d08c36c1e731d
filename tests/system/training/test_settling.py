"""Device options left at "auto": written into run.toml and the manifest, and kept on resume."""

from __future__ import annotations

import json
from pathlib import Path

from tests.conftest import RunTtf
from tests.unit.training.test_settling import KEY, own_home  # noqa: F401

from ttf.data.synth import SynthShape, write_synth
from ttf.machine import devices, measured


def test_a_real_run_records_the_path_it_took(tmp_path: Path, run_ttf: RunTtf) -> None:
    files = write_synth(
        tmp_path, SynthShape(pairs=64, val=8, seq_len=1, dim=8, bank=40, seed=0), container="npz"
    )
    measured.row_file().parent.mkdir(parents=True)
    measured.row_file().write_text("{}")
    argv = ["--pairs", str(files["pairs"]), "--bank", str(files["bank"]), "--steps", "2"]
    argv += ["--batch-size", "8", "--accum", "1", "--threads", "1", "--tower", "linear"]
    done = run_ttf("train", *argv, "--precision", "bf16", "--isolation", "none", "--out", "run")
    assert done.code == 0, done.err
    assert "gemm.json, a file of ttf bench --tune" in done.err.replace("\n", " ")
    here = devices.choose("cpu", {}, 1).settled()["float32_matmul"]
    manifest = json.loads((tmp_path / "run/manifest.json").read_text())
    assert manifest["chosen"][KEY] == {"value": here.value, "origin": f"auto: {here.reason}"}
    assert manifest["chosen"]["device.precision"] == {"value": "bf16", "origin": "--precision"}
    text = (tmp_path / "run/run.toml").read_text()
    assert f'float32_matmul = "{here.value}"' in text and f"# auto: {here.reason}" in text
