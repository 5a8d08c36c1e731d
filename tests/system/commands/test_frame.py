"""The command line's frame: what starts, what it says, how it ends."""

from __future__ import annotations

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


def test_python_m_ttf_is_ttf(run_ttf: RunTtf) -> None:
    assert run_ttf("--version").out.startswith("ttf 0.")
    assert run_ttf("nothing").code == 2
