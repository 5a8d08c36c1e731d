"""Runs the job of an executor on this host, in a process tree that ends with this process.

`python -m ttf.process.job PARENT MODULE WORDS...` is the child's side.
"""

from __future__ import annotations

import contextlib
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from typing import IO, Final

from ttf.jobs import Job, JobEnd
from ttf.process import child, lifeline, limits

_MOST_OUTPUT: Final = 64 << 20
_MOST_ERRORS: Final = 1 << 16
_LEAVE_S: Final = 10.0
_LOOK_EVERY_S: Final = 0.05


class StartedJob:
    """Must be started from a thread that lives as long: the kernel ends the job with that thread."""

    @limits.explained()
    def __init__(self, job: Job) -> None:
        """Raises OSError, for example where its folder does not exist."""
        self.job = job
        self._mark = uuid.uuid4().hex
        self._out, self._err = tempfile.TemporaryFile(), tempfile.TemporaryFile()  # noqa: SIM115
        try:
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-m", __name__, str(os.getpid()), job.module, *job.words],
                stdin=subprocess.DEVNULL,
                stdout=self._out,
                stderr=self._err,
                cwd=job.cwd,
                env={**os.environ, **job.environment, child.TREE: self._mark},
                start_new_session=True,
            )
        except BaseException:
            self._close()
            raise

    @property
    def is_over(self) -> bool:
        return self.process.poll() is not None

    def end(self, grace_s: float = _LEAVE_S) -> None:
        """Asks it to end, then kills what is left of it and of what it started."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(grace_s)
        child.kill_tree(child.NO_SESSION, self._mark, child.TREE)
        self.process.wait()

    def result(self, where: str = "") -> JobEnd:
        """Of a job that is over; ends what it left behind."""
        self.end(0.0)
        code = self.process.returncode
        output, errors = _end_of(self._out, _MOST_OUTPUT), _end_of(self._err, _MOST_ERRORS)
        self._close()
        return JobEnd(
            name=self.job.name,
            exit_code=code if code >= 0 else 128 - code,
            output=output,
            errors=errors.decode(errors="replace"),
            where=where,
        )

    def _close(self) -> None:
        self._out.close()
        self._err.close()


def run_job(job: Job, cancelled: Callable[[], bool] | None = None) -> JobEnd:
    """Runs it here and returns when it has ended, for executors whose workers are Python processes.

    If `cancelled` says so, or this raises, the job ends with all of its processes.
    """
    import socket

    try:
        started = StartedJob(job)
    except OSError as error:
        return JobEnd(name=job.name, exit_code=None, errors=str(error), where=socket.gethostname())
    try:
        while not started.is_over and not (cancelled is not None and cancelled()):
            time.sleep(_LOOK_EVERY_S)
    finally:
        started.end()
    return started.result(where=socket.gethostname())


def _end_of(file: IO[bytes], most: int) -> bytes:
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - most))
    return file.read()


def main(parent: int, module: str, words: list[str]) -> None:
    lifeline.die_with_parent(parent)
    sys.argv[1:] = words
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], sys.argv[3:])
