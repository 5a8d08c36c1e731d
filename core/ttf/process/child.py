"""One child process and the pipes to it: started by exec in its own session, never by fork."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from ttf.process import descendants, messages

TREE: Final = "TTF_TREE"
"""Every process of a run has this variable, wherever it was re-parented to: who ends the run ends
these, and nobody else's."""
_REAP_S: Final = 5.0


class Child:
    """A trainer: its life line, its messages, its standard error, and an event for its death."""

    def __init__(self, words: Sequence[str], display: int | None, *, again: bool = False) -> None:
        """`words` follow the interpreter; LIFELINE RESULTS DISPLAY PARENT are appended. `again`:
        it stands in for one that died. Call from the main thread: the parent-death signal follows
        the thread that spawned."""
        self.tree = uuid.uuid4().hex
        self._closed: set[int] = set()
        self._unsent = bytearray()
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
                env=environment(self.tree, again=again),
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
        """False where the child has not taken it: it is gone, or hangs with a full pipe. What is
        in the way of a message is sent first, and its rest by `send_rest`."""
        self._unsent += messages.encode(message)
        return self.send_rest()

    def send_rest(self) -> bool:
        """Call it now and then: half a message must not stay half."""
        while self._unsent:
            try:
                del self._unsent[: os.write(self.lifeline, self._unsent)]
            except BlockingIOError:
                return False
            except BrokenPipeError:
                self._unsent.clear()
                return False
        return True

    def reap(self) -> int:
        """Its return code; what does not end soon is killed, and what even that does not end is
        held by the kernel, for a disk or a device: then that of a process that was killed."""
        if not self._gone_within(_REAP_S):
            self.kill()
            self._gone_within(_REAP_S)
        code = self.process.returncode
        return -signal.SIGKILL if code is None else code

    def _gone_within(self, seconds: float) -> bool:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(seconds)
        return self.process.returncode is not None

    def signal(self, signum: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signum)

    def signal_main_thread(self, signum: int) -> None:
        """Of a process that is stopped, any thread may take what is sent to the process (Linux
        with glibc; elsewhere that is what happens)."""
        send = getattr(ctypes.CDLL(None), "tgkill", None)
        if send is None:
            self.signal(signum)
        else:
            send(self.pid, self.pid, signum)

    def stop_tree(self) -> None:
        """Holds every process of the run but us, until `continue_tree`."""
        for _ in range(2):  # one of them may have been starting another
            self._signal_tree(signal.SIGSTOP)

    def continue_tree(self) -> None:
        self._signal_tree(signal.SIGCONT)

    def _signal_tree(self, signum: int) -> None:
        for pid in descendants.members(self.pid, self.tree, TREE):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signum)

    def kill(self) -> None:
        """The whole tree, wherever its members were re-parented to."""
        descendants.kill(self.pid, self.tree, TREE)
        descendants.remove_marks(self.pid)

    def close(self) -> None:
        """Ends it, if it still lives. May be called twice."""
        if self.process.poll() is None:
            self.kill()
            self._gone_within(_REAP_S)
        for fd in (self.lifeline, self.results, self.stderr, self.pidfd):
            if fd is not None and fd not in self._closed:
                os.close(fd)
                self._closed.add(fd)


def _close(*fds: int) -> None:
    for fd in fds:
        os.close(fd)


def environment(tree: str, *, again: bool = False) -> dict[str, str]:
    """What the child sees: our own, the mark of the run, and the modules this process can import.

    KMP_DUPLICATE_LIB_OK turns an abort into wrong numbers; it is not passed on. Nor is a failpoint
    to a child that stands in for one that died.
    """
    left_out = {"KMP_DUPLICATE_LIB_OK"}
    if again and not os.environ.get("TTF_FAILPOINT_EVERY"):
        left_out.add("TTF_FAILPOINT")
    kept = {k: v for k, v in os.environ.items() if k not in left_out}
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
