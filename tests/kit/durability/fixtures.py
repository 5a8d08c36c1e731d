"""A process of its own whose children write checkpoints and are disturbed while they do."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def ram(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory where the system has that: what waits for no disk is tested fast."""
    shared = Path("/dev/shm")
    if not os.access(shared, os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(prefix="ttf-durability-", dir=shared) as folder:
        yield Path(folder)


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How a writing process ended."""

    status: int
    """As `os.waitstatus_to_exitcode` gives it: negative for a signal."""
    acknowledged: int
    """The highest step it was told to be saved; -1: none."""
    said: tuple[str, ...]
    error: str


class Forker:
    """Asks `tests.kit.durability.forker` for children; one at a time."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._root = Path()
        self._held = False
        self.child = 0

    def fork(self, root: Path, failpoint: str = "", **options: Any) -> int:
        """A child that makes ready and waits for `go`; its process id."""
        self._root = root
        self._tell({"root": str(root), "failpoint": failpoint, "options": options})
        self.child, self._held = int(self._hear()["pid"]), True
        return self.child

    def wait_until_ready(self) -> None:
        while not (told := told_by(self._root)).is_file() or "ready" not in told.read_text():
            time.sleep(0.002)

    def go(self) -> None:
        self._held = False
        self._tell("go")

    def ended(self) -> Ended:
        status = int(self._hear()["status"])
        self.child = 0
        told = [json.loads(line) for line in told_by(self._root).read_text().splitlines()]
        return Ended(
            status=status,
            acknowledged=max((t["saved"] for t in told if "saved" in t), default=-1),
            said=tuple(t["said"] for t in told if "said" in t),
            error="".join(t["error"] for t in told if "error" in t),
        )

    def end(self) -> None:
        """Whatever state the child is in."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.child, signal.SIGKILL)
        if self._held:
            self.go()
        self._hear()
        self.child = 0

    def run(self, root: Path, failpoint: str = "", **options: Any) -> Ended:
        self.fork(root, failpoint, **options)
        self.go()
        return self.ended()

    def _tell(self, message: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message) + "\n")
        self._process.stdin.flush()

    def _hear(self) -> Any:
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())


def told_by(root: Path) -> Path:
    """Where the child that writes into `root` notes what it was told; not in the run's folder."""
    return root.with_name(f"{root.name}.told")


@pytest.fixture(scope="module")
def forking() -> Iterator[Forker]:
    """Started once: loading torch takes longer than all that its children do."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.kit.durability.forker"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        forker = Forker(process)
        try:
            yield forker
        finally:
            process.kill()  # a child that is left goes with it: see `die_with_parent`


@pytest.fixture
def forker(forking: Forker) -> Iterator[Forker]:
    """The same process; a child that a failing test left behind is ended before the next test."""
    yield forking
    if forking.child:
        forking.end()
