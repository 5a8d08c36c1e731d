"""Limits and runtimes that real deaths need; each is taken down whatever happens."""

from __future__ import annotations

import contextlib
import importlib.metadata
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.kit import groups


@pytest.fixture
def memory_group() -> Iterator[Path]:
    """A control group (v1) of 64 MiB of one's own."""
    with groups.memory_group(64) as group:
        yield group.folder


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MiB."""
    folder = tmp_path / "small"
    folder.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        pytest.skip(f"nothing can be mounted here ({done.stderr.strip()})")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.fixture(scope="session")
def intel_openmp(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Intel's OpenMP runtime: installed, or fetched into a folder of the tests."""
    installed = _installed()
    if installed is not None:
        yield installed
        return
    folder = tmp_path_factory.mktemp("intel-openmp")
    try:
        yield _fetched(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _installed() -> Path | None:
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        for file in importlib.metadata.files("intel-openmp") or ():
            if file.name == "libiomp5.so":
                return Path(str(file.locate())).resolve()
    return None


def _fetched(folder: Path) -> Path:
    fetch = [sys.executable, "-m", "pip", "download", "--no-deps", "--quiet", "--retries", "0"]
    try:
        done = subprocess.run(
            [*fetch, "--dest", str(folder), "intel-openmp"],
            capture_output=True,
            text=True,
            timeout=40,
            check=False,
        )
    except subprocess.TimeoutExpired:
        pytest.skip("intel-openmp is not installed, and fetching it took too long")
    wheel = next(folder.glob("*.whl"), None)
    if done.returncode or wheel is None:
        pytest.skip("intel-openmp is not installed and cannot be fetched")
    with zipfile.ZipFile(wheel) as archive:
        name = next((n for n in archive.namelist() if n.endswith("/libiomp5.so")), None)
        if name is None:
            pytest.skip("intel-openmp has no libiomp5.so for this system")
        path = folder / "libiomp5.so"
        path.write_bytes(archive.read(name))
    wheel.unlink()
    return path


JoinGroup = Callable[[subprocess.Popen[bytes]], None]


@pytest.fixture
def join(memory_group: Path) -> JoinGroup:
    """Moves a child into the small group."""

    def move(child: subprocess.Popen[bytes]) -> None:
        (memory_group / "cgroup.procs").write_text(str(child.pid))

    return move
