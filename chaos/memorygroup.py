"""A real limit on memory: a control group of version 1 of one's own."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

GROUPS: Final = Path("/sys/fs/cgroup/memory")


def why_not() -> str:
    try:
        with memory_group(1 << 30):
            return ""
    except OSError as error:
        return f"no memory group of version 1 can be made here ({error.strerror})"


@dataclass(frozen=True, kw_only=True)
class MemoryGroup:
    path: Path

    @property
    def prefix(self) -> tuple[str, ...]:
        """A command that joins the group and becomes what follows."""
        script = f'echo $$ > {self.path}/cgroup.procs && exec "$@"'
        return ("sh", "-c", script, "sh")

    def limit(self, limit_bytes: int) -> bool:
        """False: the kernel cannot, because more than that is held (version 1)."""
        try:
            (self.path / "memory.limit_in_bytes").write_text(str(limit_bytes))
        except OSError:
            return False
        return True

    @property
    def kills(self) -> int:
        """By the kernel, for lack of memory."""
        lines = (self.path / "memory.oom_control").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("oom_kill "))


@contextlib.contextmanager
def memory_group(limit_bytes: int) -> Iterator[MemoryGroup]:
    path = GROUPS / f"ttf-chaos-{os.getpid()}-{time.monotonic_ns()}"
    path.mkdir()
    try:
        (path / "memory.limit_in_bytes").write_text(str(limit_bytes))
        yield MemoryGroup(path=path)
    finally:
        _remove(path)


def _remove(path: Path) -> None:
    """The kernel takes a moment to let go of one whose processes have ended."""
    for _ in range(100):
        try:
            path.rmdir()
            return
        except OSError:
            time.sleep(0.05)
    path.rmdir()
