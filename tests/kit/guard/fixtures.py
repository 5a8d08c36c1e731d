"""Guards that end with their test, and the table of the planted crashes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.kit.guard.harness import Guarded
from tests.kit.incidents.fixtures import intel_openmp, memory_group, small_disk

__all__ = ["intel_openmp", "memory_group", "small_disk"]

ROWS = pytest.StashKey[list[tuple[str, ...]]]()
CHAOS = os.environ.get("TTF_CHAOS", "0") not in ("", "0")
wide = pytest.mark.skipif(not CHAOS, reason="one of many: TTF_CHAOS=1 runs it")
Start = Callable[..., Guarded]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts a guarded command in the test's folder; nothing of it is left afterwards."""
    started: list[Guarded] = []
    (tmp_path / "tmp").mkdir()

    def begin(words: list[str], *options: str, **more: Any) -> Guarded:
        started.append(Guarded(tmp_path, words, *options, **more))
        return started[-1]

    yield begin
    for guarded in started:
        guarded.close()


@pytest.fixture
def rows(request: pytest.FixtureRequest) -> list[tuple[str, ...]]:
    """Of the table that is printed at the end."""
    return request.config.stash.setdefault(ROWS, [])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    found = terminalreporter.config.stash.get(ROWS, [])
    if not found:
        return
    terminalreporter.section("planted crashes")
    good = sum(row[-1] == "right" for row in found)
    for row in [("crash", "expected", "found", "exit", "certain", ""), *found]:
        cells = zip(row, (32, 20, 20, 6, 8, 6), strict=True)
        terminalreporter.write_line(" ".join(cell.ljust(width) for cell, width in cells))
    terminalreporter.write_line(f"{good} of {len(found)} right")
