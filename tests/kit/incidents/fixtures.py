"""Limits and runtimes that real deaths need; each is taken down whatever happens."""

from __future__ import annotations

import subprocess
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


JoinGroup = Callable[[subprocess.Popen[bytes]], None]


@pytest.fixture
def join(memory_group: Path) -> JoinGroup:
    """Moves a child into the small group."""

    def move(child: subprocess.Popen[bytes]) -> None:
        (memory_group / "cgroup.procs").write_text(str(child.pid))

    return move
