"""The trainer's end of a worker: started by exec, watched by descriptors, ended with its family."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
import uuid
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from ttf.incidents.gather import Witness
from ttf.incidents.inputs import look_at
from ttf.machine.thread_variables import thread_environment
from ttf.process import descendants
from ttf.process.kept_output import BoundedOutput

_REAP_S: Final = 5.0
_STACKS_S: Final = 1.0
_PIPE_BYTES: Final = 1 << 16
_MOST_DRAINED: Final = 1 << 22


def environment(threads: int, mark: str) -> dict[str, str]:
    """Threads are fixed before the library loads; KMP_DUPLICATE_LIB_OK hides faults, so it goes."""
    kept = {k: v for k, v in os.environ.items() if k != "KMP_DUPLICATE_LIB_OK"}
    return {**kept, **thread_environment(threads), descendants.MARK: mark}


class WorkerProcess:
    """One process that answers requests for one miner; see `ttf.mining.worker` for its side.

    The parent-death signal follows the *thread* that spawned it: make it in a thread that lives as
    long as it shall. `lifeline`, `results`, `stderr` and `pidfd` are ours, and do not block.
    """

    def __init__(self, miner: str, threads: int, stacks: Path | None) -> None:
        """`stacks` is a file that exists; None: its stacks go to standard error."""
        self.miner, self.threads, self.stacks = miner, threads, stacks
        self.output = BoundedOutput()
        self.requests = 0
        self._inputs: tuple[str, ...] = ()
        self._mark = uuid.uuid4().hex
        theirs_life, self.lifeline = os.pipe()
        self.results, theirs_results = os.pipe()
        self.stderr, theirs_stderr = os.pipe()
        ours = [self.lifeline, self.results, self.stderr]
        words = [theirs_life, theirs_results, os.getpid(), stacks or ""]
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "ttf.mining.worker", *map(str, words)],
                stdin=subprocess.DEVNULL,
                stdout=theirs_stderr,
                stderr=theirs_stderr,
                pass_fds=(theirs_life, theirs_results),
                env=environment(threads, self._mark),
                start_new_session=True,
            )
        except BaseException:
            _close(*ours)
            raise
        finally:
            _close(theirs_life, theirs_results, theirs_stderr)
        self.pid = self._process.pid
        self.pidfd = _pidfd(self.pid)
        for fd in ours:
            os.set_blocking(fd, False)
        if self.pidfd is not None:
            ours.append(self.pidfd)
        self.witness = Witness("miner", self.pid, stacks=stacks)
        # Whoever forgets to end it does not keep it: it goes with this object.
        self._finalizer = weakref.finalize(
            self, _end, self._process, self._mark, tuple(ours), self.witness
        )

    def alive(self) -> bool:
        """Does not reap it: until `end`, its number stays its own."""
        if not self._finalizer.alive:
            return False
        if self.pidfd is None:
            return self._process.poll() is None
        return not _readable(self.pidfd, 0.0)

    def gone_within(self, seconds: float) -> bool:
        """Waits for its end."""
        if self.pidfd is not None:
            return _readable(self.pidfd, seconds)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
        return self._process.returncode is not None

    def read(self, fd: int) -> bytes | None:
        """What lies in one of its pipes; b"" at the end of the stream, None for nothing now."""
        try:
            return os.read(fd, _PIPE_BYTES)
        except BlockingIOError:
            return None

    def dump_stacks(self) -> None:
        """Has its stacks written: also while it holds the interpreter lock, or is stopped."""
        before = self._stacks_bytes()
        for signum in (signal.SIGUSR1, signal.SIGCONT):
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signum)
        until = time.monotonic() + _STACKS_S
        while self._stacks_bytes() == before and time.monotonic() < until:
            if self.gone_within(0.02):
                return
        time.sleep(0.05)  # the rest of the dump

    def watch(self, inputs: Sequence[str]) -> None:
        """Notes what these files are, so that a death can be told from their change."""
        if tuple(inputs) != self._inputs:
            self._inputs, self.witness.inputs = tuple(inputs), ()
            with contextlib.suppress(OSError):  # one that cannot be read is met by whoever needs it
                self.witness.inputs = look_at(inputs)

    def end(self) -> int | None:
        """Kills it and whatever it started, and lets go of it; its return code, None where even
        that did not end it (the kernel holds it). May be called again."""
        if self._finalizer.alive:
            descendants.kill(self.pid, self._mark)
            self._drain()
            self._finalizer()
        return self._process.returncode

    def _drain(self) -> None:
        self.gone_within(_REAP_S)
        read = 0
        while read < _MOST_DRAINED and (data := self.read(self.stderr)):
            self.output.add(data)
            read += len(data)

    def _stacks_bytes(self) -> int:
        if self.stacks is None:
            return 0
        try:
            return self.stacks.stat().st_size
        except OSError:
            return 0


def _end(
    process: subprocess.Popen[bytes], mark: str, ours: tuple[int, ...], witness: Witness
) -> None:
    if process.returncode is None:
        descendants.kill(process.pid, mark)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_REAP_S)
    witness.close()
    _close(*ours)
    descendants.remove_marks(process.pid)


def _close(*fds: int) -> None:
    for fd in fds:
        with contextlib.suppress(OSError):
            os.close(fd)


def _pidfd(pid: int) -> int | None:
    """Readable once the process has ended; None where the system has no such thing."""
    opener = getattr(os, "pidfd_open", None)
    if opener is None:
        return None
    try:
        return int(opener(pid))
    except OSError:  # an old kernel, or a sandbox that forbids it
        return None


def _readable(fd: int, seconds: float) -> bool:
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(seconds * 1000))
