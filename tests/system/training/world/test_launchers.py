"""`python -m ttf.rank` under torchrun: a killed rank is explained, and the run goes on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.kit.ranks import small_data, steps_done, train_ranks
from tests.kit.widely import wide
from tests.system.training.world.test_equal_ranks import COMMON, MODES

from ttf.errors import ConfigError
from ttf.rank import place_of

FLAGS: dict[str, Any] = {**COMMON, **MODES["mining"], "checkpoint.every_steps": 3}


def test_ranks_are_those_of_the_launcher() -> None:
    torch = {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}
    there = {"MASTER_ADDR": "hosta", "MASTER_PORT": "29500"}
    found = place_of({**torch, **there, "TORCHELASTIC_USE_AGENT_STORE": "True"})
    assert (found.rank, found.size, found.local_rank, found.local_size) == (3, 4, 1, 2)
    assert (found.store, found.hosted) == ("hosta:29500", True)
    slurm = {"SLURM_PROCID": "1", "SLURM_NTASKS": "2", "SLURM_LOCALID": "0"}
    assert (place_of({**slurm, **there}).rank, place_of({**slurm, **there}).hosted) == (1, False)


@pytest.mark.parametrize(
    ("variables", "text"),
    [
        ({}, "RANK or SLURM_PROCID"),
        ({"RANK": "0", "WORLD_SIZE": "2"}, "not set MASTER_ADDR, MASTER_PORT"),
        ({"RANK": "x", "WORLD_SIZE": "2", "MASTER_ADDR": "a", "MASTER_PORT": "1"}, "no number"),
    ],
)
def test_a_launcher_that_says_too_little_is_refused(variables: dict[str, str], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        place_of(variables)


@wide
def test_torchrun_starts_a_killed_rank_again(tmp_path: Path) -> None:
    flags = {**small_data(tmp_path / "data"), **FLAGS}
    alone = train_ranks(tmp_path / "alone", 1, flags)[0].summary
    (tmp_path / "run.toml").write_text("")
    sets = [f"--set={key}={json.dumps(value)}" for key, value in flags.items()]
    words = ["-m", "torch.distributed.run", "--nproc-per-node", "3", "--max-restarts", "3"]
    words += ["--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0"]
    out = tmp_path / "run"
    launcher = subprocess.Popen(
        [sys.executable, *words, "-m", "ttf.rank", "run.toml", "--out", str(out), *sets],
        cwd=tmp_path,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stderr=subprocess.PIPE,
        text=True,
    )
    killed = kill_at(launcher.pid, out / "ranks" / "1", step=10)
    _, said = launcher.communicate(timeout=240)
    assert killed and launcher.returncode == 0, said[-3000:]
    summary = json.loads((out / "summary.json").read_text())
    assert summary["weights_sha256"] == alone["weights_sha256"]
    incidents = sorted((out / "ranks" / "1" / "incidents").glob("*/incident.json"))
    assert [json.loads(path.read_text())["class"] for path in incidents] == ["killed"]


def kill_at(launcher: int, folder: Path, step: int) -> bool:
    """Kills the trainer of a rank once it has done so many steps."""
    ends_at = time.monotonic() + 120
    while time.monotonic() < ends_at and psutil.pid_exists(launcher):
        if steps_done(folder) >= step:
            for process in psutil.Process(launcher).children(recursive=True):
                if "ttf.training.launch" in process.cmdline() and (
                    str(folder / "flight.bin") in {m.path for m in process.memory_maps()}
                ):
                    process.send_signal(signal.SIGKILL)
                    return True
        time.sleep(0.02)
    return False
