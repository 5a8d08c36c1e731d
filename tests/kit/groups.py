"""A memory cgroup of version 1 of one's own: real limits, and kernels that really kill."""

from __future__ import annotations

import contextlib
import itertools
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

GROUPS: Final = Path("/sys/fs/cgroup/memory")
_NUMBERS: Final = itertools.count(1)
_LONGEST_S: Final = 10.0
_NO_LIMIT_MB: Final = 1 << 40  # the kernel takes it for the most there is


@dataclass(frozen=True, kw_only=True)
class Group:
    folder: Path

    @property
    def enter(self) -> str:
        """A line of shell: whoever runs it, and all it starts, is in the group."""
        return f"echo $$ > {self.folder}/cgroup.procs"

    def limit(self, size_mb: int) -> None:
        (self.folder / "memory.limit_in_bytes").write_text(str(size_mb << 20))

    def kills(self) -> int:
        lines = (self.folder / "memory.oom_control").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("oom_kill "))

    def stat(self, key: str) -> int:
        lines = (self.folder / "memory.stat").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.split()[0] == key)


@contextlib.contextmanager
def memory_group(size_mb: int = _NO_LIMIT_MB) -> Iterator[Group]:
    """With that limit; skips the test where none can be made. Ends what is left in it."""
    group = Group(folder=GROUPS / f"ttf-test-{os.getpid()}-{next(_NUMBERS)}")
    try:
        group.folder.mkdir()
    except OSError as error:
        pytest.skip(f"cannot make a memory cgroup of version 1 here: {error}")
    try:
        try:
            group.limit(size_mb)
        except OSError as error:
            pytest.skip(f"the memory cgroup takes no limit: {error}")
        yield group
    finally:
        _remove(group.folder)


def _remove(folder: Path) -> None:
    deadline = time.monotonic() + _LONGEST_S
    while True:
        for pid in (folder / "cgroup.procs").read_text().split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), 9)
        try:
            folder.rmdir()
            return
        except OSError:  # EBUSY until the last process and page are gone
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)
