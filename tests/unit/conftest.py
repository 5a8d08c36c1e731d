"""No unit test starts a process: `make unit` is what one runs while working."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, Final

import numpy.testing  # of NumPy 2.0: starts lscpu when it is imported
import pytest

_STARTS: Final = {
    "os.exec",
    "os.fork",
    "os.forkpty",
    "os.posix_spawn",
    "os.spawn",
    "os.system",
    "subprocess.Popen",
}
_started: list[str] = []
_is_watching = False


def _note(event: str, args: tuple[Any, ...]) -> None:
    if _is_watching and event in _STARTS:
        _started.append(f"{event}: {args[:2]}")


sys.addaudithook(_note)  # for good: Python has no way to take one away


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup() -> Iterator[None]:
    """Fixtures are watched as well."""
    global _is_watching
    _started.clear()
    _is_watching = True
    yield


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown() -> Iterator[None]:
    global _is_watching
    try:
        yield
    finally:
        _is_watching = False
    assert not _started, f"a unit test started a process (tests/system is for those): {_started}"
