"""Processes to look at: one that grows, one that waits; and a run that is under way."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.kit.crashes import sabotage
from tests.kit.crashes.harness import Live, World
from tests.kit.incidents.fixtures import memory_group

__all__ = ["memory_group"]

wide = pytest.mark.skipif(
    os.environ.get("TTF_CHAOS", "0") in ("", "0"), reason="one of many: TTF_CHAOS=1 runs it"
)
Start = Callable[..., subprocess.Popen[bytes]]

GROWS = """
import sys, time
held, step, pause, began = [], int(sys.argv[1]), float(sys.argv[2]), time.monotonic()
while True:
    held.append(bytearray(b"x" * step))
    sys.stdout.write(f"{time.time()} {step * len(held)}\\n")
    sys.stdout.flush()
    time.sleep(max(0, began + pause * len(held) - time.monotonic()))
"""
"""Takes so many bytes every so many seconds, and tells how much it has."""
WAITS = "import time; print('ready', flush=True); time.sleep(100)"


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts Python code; whatever is left of it ends with the test."""
    started: list[subprocess.Popen[bytes]] = []

    def run(code: str, *words: object, **more: Any) -> subprocess.Popen[bytes]:
        more.setdefault("stdout", subprocess.PIPE)
        process = subprocess.Popen(
            [sys.executable, "-c", code, *map(str, words)], start_new_session=True, **more
        )
        started.append(process)
        return process

    yield run
    for process in started:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


@pytest.fixture
def waiting(start: Start) -> subprocess.Popen[bytes]:
    """A process that is there and does nothing."""
    process = start(WAITS)
    assert process.stdout is not None and process.stdout.readline() == b"ready\n"
    return process


@pytest.fixture
def ttf() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts a command of ours with pipes."""
    started: list[subprocess.Popen[str]] = []

    def run(*words: object, **more: Any) -> subprocess.Popen[str]:
        more = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True} | more
        started.append(subprocess.Popen([sys.executable, "-m", "ttf", *map(str, words)], **more))
        return started[-1]

    yield run
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


@pytest.fixture(scope="module")
def _shared(tmp_path_factory: pytest.TempPathFactory) -> World:
    from ttf.data.synth import SynthShape, write_synth

    root = tmp_path_factory.mktemp("monitor")
    write_synth(
        root, SynthShape(pairs=2000, val=300, seq_len=2, dim=32, bank=1000, seed=1, noise=1.0)
    )
    sabotage.install(root / "plugins")
    return World(root=root, plugins=root / "plugins")


@pytest.fixture
def world(_shared: World) -> Iterator[World]:
    yield _shared
    left = _shared.end_all()
    assert not left, f"left behind: {left}"


@pytest.fixture
def live(world: World, tmp_path: Path) -> Iterator[Callable[[Sequence[str]], Live]]:
    """Starts `ttf train` or `ttf resume` on one folder."""
    started: list[Live] = []

    def run(words: Sequence[str]) -> Live:
        started.append(Live(world, words, tmp_path / "run"))
        return started[-1]

    yield run
    for each in started:
        each.close()
