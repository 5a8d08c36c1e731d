"""The seam below `ttf.rundir.durable`: every change of the disk is an `Operation` with a name
("checkpoint.write") that passes through `perform`.

There a recorder lists the operations, and a failpoint (`ttf.rundir.failpoints`) makes them fail.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ttf.rundir import failpoints

Verb = Literal["create", "write", "fsync", "rename", "fsync_dir", "unlink", "mkdir", "rmdir"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Operation:
    """One change of the disk, or one wait for it."""

    verb: Verb
    area: str  # What is written: 'checkpoint', 'metrics', 'candidates', ...
    path: Path
    target: Path | None = None  # Of a rename.
    offset: int = 0
    data: bytes | memoryview = b""  # Of a write.

    @property
    def name(self) -> str:
        return f"{self.area}.{self.verb}"


# Does the operation; gets the bytes of a write, and returns how many were written.
Act = Callable[[memoryview], int]
Interceptor = Callable[[Operation, Act], int]

_interceptor: Interceptor | None = failpoints.from_environment()


def perform(operation: Operation, act: Act) -> int:
    if _interceptor is None:
        return act(memoryview(operation.data))
    return _interceptor(operation, act)


def change(
    act: Callable[[], object], verb: Verb, area: str, path: Path, target: Path | None = None
) -> None:
    """Any change but a write."""

    def do(_: memoryview) -> int:
        act()
        return 0

    perform(Operation(verb=verb, area=area, path=path, target=target), do)


@contextlib.contextmanager
def intercepted(interceptor: Interceptor) -> Iterator[None]:
    """During the block every operation of this process, of all threads, goes to `interceptor`."""
    global _interceptor
    before, _interceptor = _interceptor, interceptor
    try:
        yield
    finally:
        _interceptor = before
