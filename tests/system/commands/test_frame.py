"""The command line's frame: what starts, what it says, how it ends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ttf.errors import ExitCode

if TYPE_CHECKING:
    from tests.conftest import RunTtf


def test_a_reader_that_leaves_ends_the_command_quietly(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "ttf", "plugins", "list", "--json"],
        stdout=writer,
        stderr=subprocess.PIPE,
        check=False,
        timeout=60,
    )
    os.close(writer)
    assert done.returncode == 141
    assert b"Traceback" not in done.stderr
    assert b"Exception" not in done.stderr


def test_a_full_disk_behind_standard_output_is_a_storage_error() -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("this system has no /dev/full")
    with full.open("w") as sink:
        done = subprocess.run(
            [sys.executable, "-m", "ttf", "plugins", "list"],
            stdout=sink,
            stderr=subprocess.PIPE,
            check=False,
            timeout=60,
        )
    assert done.returncode == ExitCode.STORAGE
    assert b"No space left on device" in done.stderr


@pytest.mark.parametrize("words", [["data", "inspect", "gone.npz"], ["no-command"]])
@pytest.mark.parametrize("where", ["2>/dev/full", ">/dev/full", ">/dev/full 2>&1"])
def test_the_exit_code_of_an_error_does_not_depend_on_who_can_be_told(
    words: list[str], where: str
) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    done = subprocess.run(
        ["sh", "-c", f'"$@" --json {where}', "sh", sys.executable, "-m", "ttf", *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    code = ExitCode.BAD_DATA if words[0] == "data" else ExitCode.USAGE
    assert done.returncode == code, done.stderr
    if where == "2>/dev/full":
        assert json.loads(done.stdout)["error"]["exit_code"] == code
    assert "Traceback" not in done.stderr


def test_python_m_ttf_is_ttf(run_ttf: RunTtf) -> None:
    assert run_ttf("--version").out.startswith("ttf 0.")
    assert run_ttf("nothing").code == 2
