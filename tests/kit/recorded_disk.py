"""Every change of the disk that `ttf.rundir.durable` makes, listed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace

from ttf.rundir import durable


@contextlib.contextmanager
def recorded() -> Iterator[list[durable.Operation]]:
    """Lists every operation in the order they were done."""
    done: list[durable.Operation] = []

    def note(operation: durable.Operation, act: durable.Act) -> int:
        count = act(memoryview(operation.data))
        data = bytes(operation.data[:count]) if operation.verb == "write" else b""
        done.append(replace(operation, data=data))
        return count

    with durable.intercepted(note):
        yield done
