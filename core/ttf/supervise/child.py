"""One child process and the pipes to it: started by exec in its own session, never by fork."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from ttf.mining import frames

TREE: Final = "TTF_TREE"
"""Every process of a run has this variable, wherever it was re-parented to: who ends the run ends
these, and nobody else's."""
_REAP_S: Final = 5.0


class Child:
    """A trainer: its life line, its messages, its standard error, and an event for its death."""

    def __init__(self, words: Sequence[str], display: int | None) -> None:
        """`words` follow the interpreter; LIFELINE RESULTS DISPLAY PARENT are appended. Call from
        the main thread: the parent-death signal follows the thread that spawned."""
        self.tree = uuid.uuid4().hex
        self._closed: set[int] = set()
        theirs_life, self.lifeline = os.pipe()
        self.results, theirs_results = os.pipe()
        self.stderr, theirs_stderr = os.pipe()
        theirs = [theirs_life, theirs_results, *([] if display is None else [display])]
        shown = -1 if display is None else display
        try:
            self.process = subprocess.Popen(
                [
                    *(sys.executable, "-P", *words),
                    *map(str, (theirs_life, theirs_results, shown, os.getpid())),
                ],
                stdin=subprocess.DEVNULL,
                stdout=theirs_stderr,
                stderr=theirs_stderr,
                pass_fds=theirs,
                env=environment(self.tree),
                start_new_session=True,
            )
        except BaseException:
            _close(self.lifeline, self.results, self.stderr)
            raise
        finally:
            _close(theirs_life, theirs_results, theirs_stderr)
        self.pidfd = _pidfd(self.process.pid)
        for fd in (self.lifeline, self.results, self.stderr):
            os.set_blocking(fd, False)

    @property
    def pid(self) -> int:
        return self.process.pid

    def send(self, message: Mapping[str, Any]) -> bool:
        """False where the child does not take it: it is gone, or hangs with a full pipe."""
        data = frames.encode(message)
        try:
            return os.write(self.lifeline, data) == len(data)
        except (BrokenPipeError, BlockingIOError):
            return False

    def reap(self) -> int:
        """Its return code, waiting no longer than a moment: what does not end is killed."""
        try:
            return self.process.wait(_REAP_S)
        except subprocess.TimeoutExpired:
            self.kill()
            return self.process.wait()

    def signal(self, signum: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signum)

    def signal_tree(self, signum: int) -> None:
        """To every process of the run but us."""
        for pid in members(self.tree):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signum)

    def kill(self) -> None:
        """The whole tree, wherever its members were re-parented to."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        for _ in range(3):  # one of them may have been starting another
            before = list(members(self.tree))
            if not before:
                return
            self.signal_tree(signal.SIGKILL)

    def close(self) -> None:
        """Ends it, if it still lives. May be called twice."""
        if self.process.poll() is None:
            self.kill()
            self.process.wait()
        for fd in (self.lifeline, self.results, self.stderr, self.pidfd):
            if fd is not None and fd not in self._closed:
                os.close(fd)
                self._closed.add(fd)


def _close(*fds: int) -> None:
    for fd in fds:
        os.close(fd)


def environment(tree: str) -> dict[str, str]:
    """What the child sees: our own, the mark of the run, and the modules this process can import.

    KMP_DUPLICATE_LIB_OK turns an abort into wrong numbers; it is not passed on.
    """
    kept = {k: v for k, v in os.environ.items() if k != "KMP_DUPLICATE_LIB_OK"}
    # Python sets up its own folders; what somebody added to sys.path holds plugins.
    ours = [p for p in sys.path if p and not _is_pythons_own(p)]
    path = os.pathsep.join(dict.fromkeys(ours))
    return {**kept, TREE: tree, **({"PYTHONPATH": path} if path else {})}


def _is_pythons_own(path: str) -> bool:
    import sysconfig

    if path.endswith(".zip") and Path(path).name.startswith("python"):
        return True
    return any(Path(path).is_relative_to(own) for own in sysconfig.get_paths().values())


def _pidfd(pid: int) -> int | None:
    """Readable once the process has ended; None where the system has no such thing, and the end
    of its results pipe has to do."""
    opener = getattr(os, "pidfd_open", None)
    if opener is None:
        return None
    try:
        return int(opener(pid))
    except OSError:  # an old kernel, or a sandbox that forbids it
        return None


def members(tree: str) -> Iterator[int]:
    """Processes that carry a run's mark, zombies and ourselves excepted."""
    mark = f"{TREE}={tree}".encode()
    if sys.platform == "linux":
        for entry in os.scandir("/proc"):
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                with contextlib.suppress(OSError):  # gone, or somebody else's
                    if mark in Path(entry.path, "environ").read_bytes().split(b"\0"):
                        yield int(entry.name)
        return
    import psutil  # type: ignore[import-untyped, unused-ignore]

    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.pid != os.getpid() and process.environ().get(TREE) == tree:
                yield process.pid
