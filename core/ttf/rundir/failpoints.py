"""Faults on demand in everything `ttf.rundir.durable` does: TTF_FAILPOINT=<operation>:<N>:<fault>.

<operation> is a name of `durable` ("checkpoint.write", "metrics.fsync") or a pattern of such names
("checkpoint.*", "*"); <N> counts its occurrences from 1, "3+" means from the third on.

    kill     SIGKILL of this process; half of a write has reached the file by then
    enospc   "No space left on device", half of a write done
    eio      "Input/output error", half of a write done
    short    half of a write, honestly counted, as the system call may; nothing for the others
    lie      half of a write, reported as all of it: a disk that lies
    sleep    hangs for an hour before the operation; "sleep=0.5" for as many seconds
    stop     SIGSTOP of this process before the operation

For tests and the chaos run. The variable is read once, when `ttf.rundir.durable` is imported, so a
process without it pays nothing. Each process counts for itself. The supervisor, its trainer and a
miner have the variable; a restarted trainer has it only with TTF_FAILPOINT_EVERY=1.
"""

from __future__ import annotations

import errno
import os
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from ttf.rundir.durable import Operation

VARIABLE: Final = "TTF_FAILPOINT"
FAULTS: Final = ("kill", "enospc", "eio", "short", "lie", "sleep", "stop")
_HANG_S: Final = 3600.0


@dataclass(kw_only=True)
class Failpoint:
    """Receives the operations of `durable`; lets them pass until its turn comes."""

    pattern: str
    first: int
    on: bool = False  # True: every operation from the first on; False: that one alone.
    fault: str
    seconds: float = _HANG_S
    met: int = 0  # Operations of that name so far.
    _counting: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def parse(cls, text: str) -> Self:
        """ValueError says what is wrong with the variable's value."""
        try:
            pattern, count, fault = text.split(":")
            fault, _, seconds = fault.partition("=")
            number = int(count.removesuffix("+"))
            if number < 1 or fault not in FAULTS or (seconds and fault != "sleep"):
                raise ValueError(f"<fault> must be one of {', '.join(FAULTS)}, and <N> starts at 1")
            return cls(
                pattern=pattern,
                first=number,
                on=count.endswith("+"),
                fault=fault,
                seconds=float(seconds or _HANG_S),
            )
        except ValueError as error:
            raise ValueError(
                f"{VARIABLE}={text!r} must be <operation>:<N>:<fault>: {error}"
            ) from None

    def __call__(self, operation: Operation, act: Callable[[memoryview], int]) -> int:
        data = memoryview(operation.data)
        if not self._is_due(operation.name):
            return act(data)
        half = data[: max(1, len(data) // 2)]
        if self.fault in ("sleep", "stop"):
            self._hold()
            return act(data)
        if self.fault == "short":
            return act(half)
        if operation.verb == "write":
            act(half)
        if self.fault == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.fault == "lie":
            return len(data) if operation.verb == "write" else act(data)
        code = errno.ENOSPC if self.fault == "enospc" else errno.EIO
        raise OSError(code, os.strerror(code), str(operation.path))

    def _is_due(self, name: str) -> bool:
        if not fnmatchcase(name, self.pattern):
            return False
        with self._counting:
            self.met += 1
            return self.met >= self.first if self.on else self.met == self.first

    def _hold(self) -> None:
        if self.fault == "stop":
            # To this thread: another thread could receive a signal to the process, and this one continue.
            signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)
        else:
            time.sleep(self.seconds)


def from_environment() -> Failpoint | None:
    text = os.environ.get(VARIABLE)
    return Failpoint.parse(text) if text else None
