"""twotower-guard, installed without torch, explains the deaths of another environment's Python."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest
from tests.kit.widely import wide
from tests.system.packages.fresh import FreshEnvironment, own_environment

MOST_BYTES: Final = 30_000_000

_DYING: Final = """\
import ctypes, os, sys
import torch
print("loss", float(torch.ones(2).sum()))
if sys.argv[1] == "segfault":
    ctypes.string_at(0)
os.abort()
"""
# Which runs crash depends on the seed of the study alone.
_FLAKY: Final = """\
import os
if os.environ["BAD"] == "1" and int(os.environ["TTF_STUDY_SEED"]) % 4:
    os.abort()
"""


def test_it_takes_at_most_30_mb_and_has_no_numeric_library(crash_side: FreshEnvironment) -> None:
    files = [f for f in crash_side.site_packages.rglob("*") if f.is_file()]
    assert any(f.suffix == ".pyc" for f in files)
    assert sum(f.stat().st_blocks * 512 for f in files) <= MOST_BYTES  # on the disk
    asked = crash_side.run(
        "-c",
        "from importlib.util import find_spec; print([name for name in "
        "('torch', 'numpy', 'pydantic', 'safetensors', 'faiss') if find_spec(name)])",
    )
    assert asked.out == "[]\n", asked.err


@pytest.mark.parametrize("death", ["segfault", pytest.param("abort", marks=wide)])
def test_a_torch_script_of_another_environment_gets_the_class_that_all_of_ttf_names(
    death: str, crash_side: FreshEnvironment, tmp_path: Path
) -> None:
    script = tmp_path / "train.py"
    script.write_text(_DYING)
    command = ["--", sys.executable, str(script), death]
    light = crash_side.run("-m", "ttf", "guard", "--out", "light", *command, cwd=tmp_path)
    full = subprocess.run(
        [sys.executable, "-m", "ttf", "guard", "--out", "full", *command],
        cwd=tmp_path,
        env=own_environment(),
        capture_output=True,
        check=False,
    )
    assert light.code == full.returncode, light.err
    told, whole = _incident(tmp_path / "light"), _incident(tmp_path / "full")
    assert told["class"] == whole["class"] == death
    # Not the advice: it also depends on the memory map that a look found, of a process this short.
    for same in ("certain", "signal", "exit_code"):
        assert told[same] == whole[same]
    assert "train.py:" in light.err
    kept = (tmp_path / "light" / "incidents" / "001" / "stdout.txt").read_text()
    assert "loss 2.0" in kept

    _reads_the_folder(crash_side, tmp_path, death)


def _reads_the_folder(crash_side: FreshEnvironment, cwd: Path, death: str) -> None:
    """Explains it, lists it, and makes the page and the zip to send."""
    lines = [
        ["explain", "light"],
        ["runs", "incidents", "light"],
        ["report", "light", "--bundle", "light.zip"],
    ]
    done = crash_side.ttf(*lines, cwd=cwd)
    assert done.code == 0, done.err
    assert f"# Incident 001: {death}" in done.out
    assert death in (cwd / "light" / "report.html").read_text()
    assert (cwd / "light.zip").stat().st_size > 1000


def test_it_watches_any_process_and_examines_another_python(
    crash_side: FreshEnvironment, tmp_path: Path
) -> None:
    sleeper = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        watched = crash_side.run("-m", "ttf", "monitor", str(sleeper.pid), "--json", cwd=tmp_path)
    finally:
        sleeper.communicate(b"\n")
    assert watched.code == 0 and watched.json()["processes"], watched.err

    checks = ("--check", "python", "--check", "versions", "--check", "openmp-duplicates")
    there = crash_side.run(
        "-m", "ttf", "doctor", "--python", sys.executable, *checks, "--json", cwd=tmp_path
    )
    details = {c["id"]: c["detail"] for c in there.json()["checks"]}
    assert "torch " in details["versions"], there.err
    here = crash_side.run("-m", "ttf", "doctor", "--json", cwd=tmp_path).json()["checks"]
    states = {c["id"]: c["status"] for c in here}
    assert states["impostor"] == states["versions"] == "ok"
    assert not states.keys() & {"torch", "device", "coload", "plugins", "steps"}


def test_bisect_finds_the_variable_that_makes_a_command_crash(
    crash_side: FreshEnvironment, tmp_path: Path
) -> None:
    script = tmp_path / "flaky.py"
    script.write_text(_FLAKY)
    found = crash_side.run(
        *("-m", "ttf", "bisect", "--command", "--vary", "env:BAD=0", "--out", "study", "--json"),
        *("--", crash_side.python, script),
        cwd=tmp_path,
        env={"BAD": "1"},
    )
    assert found.code == 0, found.err
    assert found.json()["culprit"] == "env:BAD=0", found.err


_REFUSED: Final = {
    "train": "ttf train needs twotower, but only twotower-guard is installed here",
    "config explain lr": "ttf config needs twotower",
    "ab a.toml b.toml": "ttf ab --command COMMAND --command COMMAND",
    "ab --command true --command false": "This command needs numpy",
    "bisect run.toml": "ttf bisect --command -- COMMAND",
    "doctor run.toml": "ttf doctor --python PATH",
    "doctor --check torch": "ttf doctor --python PATH",
    "explain learning_rate": "No incident class named 'learning_rate'",
}


def test_what_needs_more_says_in_one_line_what_to_install(
    crash_side: FreshEnvironment, tmp_path: Path
) -> None:
    script = "import sys; from ttf import cli\nfor line in sys.argv[1:]: cli.run(line.split())"
    told = crash_side.run("-c", script, *_REFUSED, cwd=tmp_path)
    assert (told.code, told.out) == (0, "")
    errors = [part for part in told.err.split("error: ") if part]
    assert len(errors) == len(_REFUSED)
    for line, error in zip(_REFUSED, errors, strict=True):
        assert _REFUSED[line] in error and "bug" not in error
    helped = crash_side.run("-m", "ttf", "--help")
    assert "\n  guard " in helped.out and "\n  train " not in helped.out


@wide
def test_beside_twotower_it_has_no_file_in_common_and_is_not_used(
    fresh_environment: FreshEnvironment, guard_wheel: Path
) -> None:
    assert _where(fresh_environment) == "twotower"
    fresh_environment.install(guard_wheel)
    assert _where(fresh_environment) == "twotower"
    found = fresh_environment.run("-m", "ttf", "doctor", "--check", "impostor")
    assert "twotower-guard 0.1.0 is installed as well, and not used" in found.out, found.err
    both = {p.name for p in fresh_environment.site_packages.iterdir()}
    assert "twotower_guard" in both and "ttf" not in both


def _where(environment: FreshEnvironment) -> str:
    asked = environment.run("-c", "from ttf.host import distribution; print(distribution.NAME)")
    return asked.out.strip() or asked.err


def _incident(folder: Path) -> Any:
    return json.loads((folder / "incidents" / "001" / "incident.json").read_text())
