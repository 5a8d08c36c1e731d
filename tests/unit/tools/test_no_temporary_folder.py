"""No folder takes a temporary file, as on a full disk: the guard works, other commands say so."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import click
import pytest

from ttf.cli import run
from ttf.errors import ExitCode
from ttf.tools.guard.folder import GuardFolder

SHARED_MEMORY = Path("/dev/shm")


@pytest.fixture(autouse=True)
def no_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    # The search itself is Python's: only the folders that it tries are others.
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: ["/proc/self/none"])


@pytest.mark.skipif(not os.access(SHARED_MEMORY, os.W_OK), reason="no shared memory here")
def test_a_guard_keeps_its_temporary_files_in_memory(tmp_path: Path) -> None:
    folder = GuardFolder(tmp_path / "watch", lambda text: None)
    try:
        assert folder.temp.parent == SHARED_MEMORY
        assert (folder.temp / "stacks").is_dir()
    finally:
        folder.close()
    assert not folder.temp.exists()


def test_a_command_says_that_no_folder_takes_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    @click.command
    def writes() -> None:
        tempfile.mkdtemp()

    assert run([], writes) == ExitCode.STORAGE
    assert "No folder takes a temporary file" in capsys.readouterr().err


def test_the_traceback_of_a_fault_is_printed_if_no_folder_takes_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    @click.command
    def fails() -> None:
        raise ValueError("this is the fault")

    assert run([], fails) == ExitCode.OUR_FAULT
    said = capsys.readouterr().err
    assert "Traceback" in said and "in fails" in said
    assert "a bug in ttf: ValueError: this is the fault" in said
