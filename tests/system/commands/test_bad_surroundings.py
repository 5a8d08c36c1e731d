"""Disks that are full or read-only, folders in use, and runs that were damaged afterwards."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.kit.fixtures.trained import BANK, DIM, TRAINS

from ttf.rundir.run_folder import RunFolder

if TYPE_CHECKING:
    from tests.conftest import Invoke

_again = pytest.mark.skipif(
    not os.environ.get("TTF_CHAOS"),
    reason="as in tests/system/supervise/faults/test_disk.py: TTF_CHAOS=1 runs it",
)


def test_a_folder_in_use_is_refused(place: Path, invoke: Invoke) -> None:
    busy = RunFolder(place / "busy")
    busy.path.mkdir()
    with busy:
        result = invoke([*TRAINS, "busy"])
    assert result.code == 9
    assert "busy" in result.err
    assert "is using busy" in result.err


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        ("size=16k", 2, "This run cannot fit: it needs at least"),
        pytest.param("size=40k", 8, "No space left on device", marks=_again),
        ("ro", 8, "Read-only file system"),
    ],
    ids=["full", "fills up during the run", "read-only"],
)
def test_a_disk_that_takes_nothing_is_a_storage_error(
    place: Path, options: str, code: int, said: str
) -> None:
    """In a mount namespace of its own: the disk is real, and gone when the process ends."""
    (place / "disk").mkdir()
    words = [*TRAINS, "disk/run", "--set", "checkpoint.retry_s=0"]
    ttf = " ".join([sys.executable, "-m", "ttf", *words])
    script = f"mount -t tmpfs -o {options} tmpfs disk || exit 99; exec {ttf}"
    try:
        done = subprocess.run(
            ["unshare", "--mount", "--map-root-user", "sh", "-c", script],
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
    except FileNotFoundError:
        pytest.skip("this system has no unshare")
    if done.returncode in (1, 99) and "error: " not in done.stderr:
        pytest.skip(f"no mount namespace of our own here: {done.stderr.strip()}")
    assert done.returncode == code, done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_queries_of_another_width_are_refused(place: Path, invoke: Invoke) -> None:
    np.savez(place / "wide.npz", X_test=np.zeros((3, DIM + 1), np.float32))
    result = invoke(["search", "run", "--queries", "wide.npz"])
    assert result.code == 3
    assert "wide.npz" in result.err
    assert str(DIM + 1) in result.err


def test_a_file_without_queries_is_refused(place: Path, invoke: Invoke) -> None:
    np.savez(place / "other.npz", words=np.zeros(3, np.float32))
    result = invoke(["search", "run", "--queries", "other.npz"])
    assert result.code == 3
    assert "other.npz" in result.err
    assert "words" in result.err


def test_pairs_for_evaluation_that_are_not_there_are_named(place: Path, invoke: Invoke) -> None:
    result = invoke(["eval", "run", "--pairs", "test.npz"])
    assert result.code == 3
    assert "test.npz" in result.err


def test_weights_that_were_damaged_are_not_used(place: Path, invoke: Invoke) -> None:
    path = place / "run" / "model" / "model.safetensors"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(bytes(data))
    result = invoke(["eval", "run"])
    assert result.code == 3
    assert "model.safetensors" in result.err


def test_a_run_whose_data_moved_says_which_file(place: Path, invoke: Invoke) -> None:
    path = place / "run" / "run.toml"
    path.write_text(path.read_text().replace("bank.npz", "moved.npz"))
    result = invoke(["eval", "run"])
    assert result.code == 3
    assert "moved.npz" in result.err


def test_a_run_toml_that_was_damaged_is_named(place: Path, invoke: Invoke) -> None:
    (place / "run" / "run.toml").write_text("[data\n")
    result = invoke(["eval", "run"])
    assert result.code == 2
    assert "run.toml is not valid TOML" in result.err


def test_more_documents_than_the_bank_has_are_cut(place: Path, invoke: Invoke) -> None:
    result = invoke(["search", "run", "--queries", "pairs.npz", "-k", "1000", "--json"])
    assert result.code == 0, result.err
    assert len(result.json()["ids"][0]) == BANK


def test_a_finished_run_is_only_shown_again(place: Path, invoke: Invoke) -> None:
    before = (place / "run" / "summary.json").read_text()
    result = invoke(["resume", "run", "--json"])
    assert (result.code, result.json()["status"]) == (0, "finished")
    assert (place / "run" / "summary.json").read_text() == before
