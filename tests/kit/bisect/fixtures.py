"""A configuration with every ingredient in it, and plugins that a test plants a fault into."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.kit.bisect.planted import Place, build

wide = pytest.mark.skipif(
    os.environ.get("TTF_CHAOS", "0") in ("", "0"), reason="takes minutes: TTF_CHAOS=1 runs it"
)


@pytest.fixture(scope="session")
def bisect_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("bisect-home")


@pytest.fixture
def place(tmp_path: Path, bisect_home: Path) -> Iterator[Place]:
    """Whoever still lives two seconds after the test is ended, and fails it."""
    made = build(tmp_path, bisect_home)
    try:
        yield made
    finally:
        ends_at = time.monotonic() + 2
        while made.living() and time.monotonic() < ends_at:
            time.sleep(0.05)
        left = made.living()
        for line in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(line.split()[0]), signal.SIGKILL)
    assert not left, f"left behind: {left}"
