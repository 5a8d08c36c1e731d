"""The parity probe: a device that computes wrongly is noticed and named; a run is not touched."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import Invoke
from tests.unit.training.test_probe import sequences, standin  # noqa: F401

# --- a whole run -----------------------------------------------------------------------------


def metrics(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


@pytest.mark.usefixtures("standin")
def test_a_run_on_a_device_ends_bitwise_like_one_without_probes(
    sequences: dict[str, str], invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    argv = ["train", "--pairs", sequences["pairs"], "--bank", sequences["bank"], "--steps", "7"]
    argv += ["--batch-size", "8", "--threads", "1", "--set", "negatives.min_yield=0", "--json"]
    argv += ["--in-process", "--isolation", "none"]
    plain = invoke([*argv, "--out", "plain"])
    probed = invoke(
        [*argv, "--device", "standin", "--set", "probe.every=3", "--out", "probed"],
    )
    assert (plain.code, probed.code) == (0, 0), plain.err + probed.err
    assert probed.json()["weights_sha256"] == plain.json()["weights_sha256"]
    probes = [line for line in metrics(tmp_path / "probed") if line["type"] == "probe"]
    assert [line["step"] for line in probes] == [0, 3, 6]


@pytest.mark.usefixtures("standin")
def test_a_run_on_a_device_one_percent_off_stops_before_its_first_step(
    sequences: dict[str, str], invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    argv = ["--pairs", sequences["pairs"], "--bank", sequences["bank"], "--threads", "1"]
    argv += ["--tower", "gru", "--out", "run"]
    argv += ["--device", "standin", "--set", "device.standin.fault=scaled"]
    done = invoke(["train", *argv, "--in-process"])
    assert done.code == 4, done.err
    assert "a difference of 1.0" in done.err
    lines = metrics(tmp_path / "run")
    assert [line["ok"] for line in lines if line["type"] == "probe"] == [False]
    assert not [line for line in lines if line["type"] == "step"]
