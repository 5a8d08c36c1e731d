"""A mining job in a process of its own: started by exec, watched, and ended whatever happens.

trainer                                    worker (own session)
  |-- life line: the job, then held open -->|  a thread reads: end of file -> exit at once
  |<-- results: progress ..., report -------|
  |    (end of file: it died)               |-- standard error -> a file
  |    (deadline, or our caller raised: kill the session)
"""

from __future__ import annotations

import contextlib
import itertools
import os
import selectors
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from ttf import errors
from ttf.contracts import Progress
from ttf.errors import MinerDied, MinerFailed, MinerTimedOut, TtfError
from ttf.mining import frames
from ttf.mining.job import MiningJob, MiningReport

Say = Callable[[str], None]
STDERR: Final = "worker-stderr.txt"
_THREAD_VARIABLES: Final = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)
_GRACE_S: Final = 5.0
_TAIL_BYTES: Final = 2000
_WAKE_S: Final = 0.25
"""How long a request to stop may go unheard."""


def run_isolated(job: MiningJob, deadline_s: float, say: Say, progress: Progress) -> MiningReport:
    """Raises MinerDied, MinerTimedOut, or whatever TtfError the worker met.

    `progress` is called several times a second even where there is nothing new, during the
    building of an index too: what it raises ends the worker and passes through.
    """
    Path(job.out).mkdir(parents=True, exist_ok=True)
    beat = _Beat(progress, _num_queries(job))
    ends_at = time.monotonic() + deadline_s
    with _worker(job) as (process, lifeline, results):
        try:
            frames.write(lifeline, {"job": job.to_json()})
            answer = _listen(results, ends_at, say, beat)
        except (BrokenPipeError, frames.BrokenFrame) as error:
            raise _death(job, process, f" ({error})") from error
        except TimeoutError:
            raise MinerTimedOut(
                job.miner,
                f"The miner {job.miner!r} did not finish within {deadline_s:,.0f} s and was "
                f"stopped. {_last_words(job)}",
                hint="Give it longer (miner.deadline_s), or choose another miner.",
            ) from None
        if answer is None:
            raise _death(job, process, "")
        return _unpacked(job, answer)


def environment(threads: int) -> dict[str, str]:
    """Threads are fixed before the library loads; KMP_DUPLICATE_LIB_OK hides faults, so it goes."""
    kept = {k: v for k, v in os.environ.items() if k != "KMP_DUPLICATE_LIB_OK"}
    return {**kept, **dict.fromkeys(_THREAD_VARIABLES, str(threads))}


@contextlib.contextmanager
def _worker(job: MiningJob) -> Iterator[tuple[subprocess.Popen[bytes], int, int]]:
    """The process, our end of the life line and our end of the results; none outlives this."""
    with contextlib.ExitStack() as stack:
        theirs_life, ours_life = _pipe(stack)
        ours_results, theirs_results = _pipe(stack)
        with (Path(job.out) / STDERR).open("wb") as stderr:
            process = subprocess.Popen(
                [
                    *(sys.executable, "-P", "-X", "faulthandler", "-m", "ttf.mining.worker"),
                    *(str(theirs_life), str(theirs_results)),
                ],
                stdin=subprocess.DEVNULL,
                stdout=stderr,
                stderr=stderr,
                pass_fds=(theirs_life, theirs_results),
                env=environment(job.context.threads),
                start_new_session=True,
            )
        stack.callback(_end, process)
        os.close(theirs_life)
        os.close(theirs_results)
        yield process, ours_life, ours_results


def _pipe(stack: contextlib.ExitStack) -> tuple[int, int]:
    """(reading end, writing end); both are closed with the stack, if they are still open."""
    ends = os.pipe()
    for fd in ends:
        stack.callback(_close, fd)
    return ends


def _close(fd: int) -> None:
    with contextlib.suppress(OSError):
        os.close(fd)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kills the whole session, whatever the miner may have started in it, and reaps the worker.

    A worker that answered has nothing left to do: its results are durable.
    """
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _num_queries(job: MiningJob) -> int:
    import numpy as np

    return len(np.load(job.queries, mmap_mode="r", allow_pickle=False))


class _Beat:
    """Tells how far the worker is, and says it again while nothing is heard."""

    def __init__(self, progress: Progress, total: int) -> None:
        self._progress = progress
        self._last = (0, total)

    def news(self, done: int, total: int) -> None:
        self._last = (done, total)
        self.again()

    def again(self) -> None:
        self._progress(*self._last)


def _listen(results: int, ends_at: float, say: Say, beat: _Beat) -> Mapping[str, Any] | None:
    """The final message; None at end of file. Raises TimeoutError, and what `beat` raises."""
    reader = frames.Reader()
    with selectors.DefaultSelector() as selector:
        selector.register(results, selectors.EVENT_READ)
        while True:
            left = ends_at - time.monotonic()
            if left <= 0:
                raise TimeoutError
            if not selector.select(min(left, _WAKE_S)):
                beat.again()
                continue
            data = os.read(results, 1 << 16)
            if not data:
                return None
            for message in reader.feed(data):
                if "say" in message:
                    say(message["say"])
                elif "progress" in message:
                    beat.news(*message["progress"])
                else:
                    return message


def _unpacked(job: MiningJob, answer: Mapping[str, Any]) -> MiningReport:
    if "report" in answer:
        return MiningReport.from_json(answer["report"])
    if "fault" in answer:
        raise MinerFailed(
            job.miner, f"The miner {job.miner!r} raised {answer['fault']}. {_last_words(job)}"
        )
    raise _same_error(job, answer["error"])


def _same_error(job: MiningJob, error: Mapping[str, str]) -> TtfError:
    """The worker's error, of its own class."""
    message, hint = error["message"], error["hint"]
    kind: Any = getattr(errors, error["class"], TtfError)
    if not (isinstance(kind, type) and issubclass(kind, TtfError)):
        return TtfError(message, hint=hint)
    if issubclass(kind, MinerFailed):
        return kind(job.miner, message, hint=hint)
    if issubclass(kind, errors.UnknownName):
        return errors.ConfigError(message, hint=hint)
    same: TtfError = kind(message, hint=hint)
    return same


def _death(job: MiningJob, process: subprocess.Popen[bytes], detail: str) -> MinerDied:
    try:
        code = process.wait(_GRACE_S)
    except subprocess.TimeoutExpired:
        how = "closed its pipe and hung"
    else:
        how = f"died of {_signal_name(-code)}" if code < 0 else f"ended with exit code {code}"
    return MinerDied(
        job.miner,
        f"The process of the miner {job.miner!r} {how} without an answer{detail}. "
        f"{_last_words(job)}",
        hint="The trainer is not affected. To leave this miner out: --miner exact.",
    )


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _last_words(job: MiningJob) -> str:
    """The end of what the worker wrote, and the file where all of it is kept, if it is."""
    path = Path(job.out) / STDERR
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _TAIL_BYTES))
        text = file.read().decode(errors="replace").strip()
    kept = _kept(path, job.keep_logs)
    if not text:
        return f"It wrote nothing to standard error.{kept}"
    return f"{kept} The end of its standard error:\n{text}".strip()


def _kept(stderr: Path, logs: str | None) -> str:
    """Copies the file to where it outlives the job; a sentence that says where."""
    if logs is None:
        return ""
    try:
        Path(logs).mkdir(parents=True, exist_ok=True)
        target = _next_log(Path(logs))
        shutil.copyfile(stderr, target)
    except OSError as error:
        return f" Its standard error could not be kept in {logs}: {error.strerror}."
    return f" Its standard error is kept in {target}."


def _next_log(logs: Path) -> Path:
    return next(
        path
        for number in itertools.count(1)
        if not (path := logs / f"miner-{number}.stderr.txt").exists()
    )
