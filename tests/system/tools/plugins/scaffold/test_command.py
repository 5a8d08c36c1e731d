"""`ttf plugins new`: what it writes, what it refuses, and that it never writes half of it."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.conftest import RunTtf

from tests.unit.tools.plugins.scaffold.test_command import (  # noqa: F401
    KINDS,
    ON_EVERY_KIND,
    _in_a_folder_of_its_own,
)


@ON_EVERY_KIND
def test_it_loads_nothing_heavy(kind: str) -> None:
    code = (
        "import sys, json\nfrom ttf import cli\n"
        f"assert cli.run(['plugins', 'new', {kind!r}, 'x']) == 0\n"
        "print('\\n' + json.dumps(sorted(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(json.loads(done.stdout.splitlines()[-1]))
    assert not loaded & {"torch", "numpy", "pydantic", "rich", "faiss", "hnswlib", "zarr"}


# --- disks -----------------------------------------------------------------------------------


@pytest.mark.parametrize("failpoint", ["mkdir:1:enospc", "fsync:4:enospc", "rename:1:eio"])
def test_a_disk_that_fails_is_a_storage_error_and_leaves_nothing(
    run_ttf: RunTtf, tmp_path: Path, failpoint: str
) -> None:
    place = tmp_path / "disk"
    place.mkdir()
    env = {"TTF_FAILPOINT": f"package.{failpoint}"}
    failed = run_ttf("plugins", "new", "tower", "x", cwd=place, env=env)
    assert failed.code == 8, failed.err
    assert "Could not write ttf-tower-x" in failed.err
    assert list(place.iterdir()) == []
    assert run_ttf("plugins", "new", "tower", "x", cwd=place).code == 0


def test_a_write_that_does_not_fit_is_a_storage_error_and_leaves_nothing(tmp_path: Path) -> None:
    """The kernel itself refuses: no file may grow beyond two kilobytes."""
    done = subprocess.run(
        [sys.executable, "-m", "ttf", "plugins", "new", "miner", "x", "--json"],
        cwd=tmp_path / "place",
        env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 8, done.stderr
    assert json.loads(done.stdout)["error"]["class"] == "StorageError"
    assert list((tmp_path / "place").iterdir()) == []


def test_a_kill_in_the_middle_leaves_no_half_of_a_package(run_ttf: RunTtf, tmp_path: Path) -> None:
    place = tmp_path / "disk"
    place.mkdir()
    env = {"TTF_FAILPOINT": "package.rename:1:kill"}
    killed = run_ttf("plugins", "new", "tower", "x", cwd=place, env=env)
    assert killed.code == -signal.SIGKILL
    assert not [p for p in place.iterdir() if not p.name.startswith(".tmp-")]
    assert run_ttf("plugins", "new", "tower", "x", cwd=place).code == 0
