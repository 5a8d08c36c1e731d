"""Every change of the disk that `ttf.rundir.durable` makes, listed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace

from ttf.rundir import disk_operations


@contextlib.contextmanager
def recorded() -> Iterator[list[disk_operations.Operation]]:
    """Lists every operation in the order they were done."""
    done: list[disk_operations.Operation] = []

    def note(operation: disk_operations.Operation, act: disk_operations.Act) -> int:
        count = act(memoryview(operation.data))
        data = bytes(operation.data[:count]) if operation.verb == "write" else b""
        done.append(replace(operation, data=data))
        return count

    with disk_operations.intercepted(note):
        yield done
