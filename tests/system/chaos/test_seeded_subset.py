"""A few runs of `make chaos` with fixed random numbers: real deaths, held against a calm run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest
from tests.kit.widely import wide

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="the faults are made for Linux"),
]
ROOT: Final = Path(__file__).parents[3]
SEED: Final = 20261118
LEAST = {"failpoint": 1}
"""Faults, and how often each must have struck to have shown anything."""
if os.environ.get("TTF_CHAOS"):  # tests/system/supervise strikes trainers, miners and supervisors
    LEAST |= {"trainer-death": 3, "miner-death": 3, "supervisor-death": 2}


@wide  # by hand: python -m chaos --quick
def test_disturbed_runs_end_as_if_nothing_had_happened(tmp_path: Path) -> None:
    found = tmp_path / "outcome.json"
    words = ["-m", "chaos", "--seed", str(SEED), "--jobs", "1"]
    words += ["--first", "1", "--runs", "1"]  # its miner's process does not load torch
    words += [word for name in LEAST for word in ("--only", name)]
    words += ["--work", str(tmp_path), "--json", str(found)]
    done = subprocess.run(
        [sys.executable, *words],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=280,
    )
    told = f"seed {SEED}, exit code {done.returncode}\n{done.stdout}"
    assert found.is_file(), told
    rows: dict[str, Any] = {row["fault"]: row for row in json.loads(found.read_text())["rows"]}
    assert not [problem for row in rows.values() for problem in row["problems"]], told
    assert all(rows[name]["struck"] >= least for name, least in LEAST.items()), told
    assert done.returncode == 0, told
