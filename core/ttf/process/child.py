"""One child process and its pipes, and how to find and end all its descendants.

Started by exec in its own session, never by fork. An orphan gets init or the nearest subreaper as
parent, so parent ids do not find it. Its session does; and if it made its own session, an inherited
environment variable does. See `orphans.py` for those that have neither.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys
import time
import uuid
import weakref
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from ttf.process import limits, platform

# Every process of a run has this variable. Only processes with it are killed at the run's end.
TREE: Final = "TTF_TREE"
# Like TREE, for a miner worker and its descendants, which also belong to the run's tree.
WORKER: Final = "TTF_WORKER"
# glibc gives each of a process's threads an arena, up to eight for each processor, and cannot return
# what is freed in the middle of one: 120 MB of an idle miner's 330, other figures after each round.
# numpy asks for huge pages for arrays of 4 MB and more. They lie in malloc's heap, where the kernel
# fills the holes that were given back with huge pages again, minutes later: memory grows while a
# process does nothing (docs/decisions/0018). Without them a run takes as long.
_ALLOCATION: Final = {"MALLOC_ARENA_MAX": "2", "NUMPY_MADVISE_HUGEPAGE": "0"}
# No session has this number, so `tree_members` finds members by their mark only.
NO_SESSION: Final = 2**31 - 1
_SHARED_MEMORY: Final = Path("/dev/shm")
_ROUNDS: Final = 100
_PAUSE_S: Final = 0.01
_REAP_S: Final = 5.0


class Child:
    """A child process with a life line, message pipe, stderr, and a pidfd that signals its end.

    This object owns `lifeline`, `results`, `stderr` and `pidfd`; they do not block. If it is
    garbage collected without `close`, the process is killed.
    """

    @limits.explained()
    def __init__(
        self,
        words: Sequence[str],
        *,
        variable: str = TREE,
        environment: Mapping[str, str] | None = None,
        passed: Sequence[int] = (),
        again: bool = False,
    ) -> None:
        """Starts the process.

        `words` follow the interpreter; LIFELINE RESULTS PARENT are appended. `variable` marks the
        process and its descendants; `environment` is added to ours; `passed` are extra descriptors;
        `again`: it replaces a process that died.

        The calling thread must live as long as the child: the parent-death signal follows the
        thread that spawned, not the process.
        """
        self.mark = uuid.uuid4().hex
        self.variable = variable
        life, results, stderr = _three_pipes()
        (theirs_life, self.lifeline), (self.results, theirs_results) = life, results
        self.stderr, theirs_stderr = stderr
        ours = [self.lifeline, self.results, self.stderr]
        numbers = (theirs_life, theirs_results, os.getpid())
        try:
            self.process = subprocess.Popen(
                [sys.executable, "-P", *words, *map(str, numbers)],
                stdin=subprocess.DEVNULL,
                stdout=theirs_stderr,
                stderr=theirs_stderr,
                pass_fds=[theirs_life, theirs_results, *passed],
                env={**inherited(again=again), **(environment or {}), variable: self.mark},
                # The terminal's Ctrl-C and hang-up are for the parent, which asks its children to
                # stop; and what a child starts is found by its session.
                start_new_session=True,
            )
        except BaseException:
            _close(ours)
            raise
        finally:
            # Held here, their ends of the pipes would never come to an end of file.
            _close([theirs_life, theirs_results, theirs_stderr])
        self.pidfd = _pidfd(self.process.pid)
        for fd in ours:
            os.set_blocking(fd, False)
        if self.pidfd is not None:
            ours.append(self.pidfd)
        self._finalizer = weakref.finalize(self, _end, self.process, self.mark, variable, ours)

    @property
    def pid(self) -> int:
        return self.process.pid

    def alive(self) -> bool:
        # With pidfds this does not reap the child. Until it is reaped no other process gets its
        # number, so a signal cannot hit a wrong process.
        return self._finalizer.alive and not self.gone_within(0.0)

    def gone_within(self, seconds: float) -> bool:
        """Waits for the end of the process, at most `seconds`."""
        if self.pidfd is not None and self.process.returncode is None:
            poll = select.poll()
            poll.register(self.pidfd, select.POLLIN)
            return bool(poll.poll(seconds * 1000))
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(seconds)
        return self.process.returncode is not None

    def end(self, grace_s: float = _REAP_S) -> int:
        """Waits `grace_s` for the end, then kills the process and its descendants; returns the
        code.

        If the kernel holds the process (for a disk or a device), returns the code of a killed
        process.
        """
        self.gone_within(grace_s)
        self.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(_REAP_S)
        code = self.process.returncode
        return -signal.SIGKILL if code is None else code

    def signal(self, signum: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signum)

    def signal_main_thread(self, signum: int) -> None:
        # In a stopped process any thread may take a signal sent to the process. tgkill names the
        # thread (Linux with glibc; elsewhere any thread may take it).
        send = getattr(ctypes.CDLL(None), "tgkill", None)
        if send is None:
            self.signal(signum)
        else:
            send(self.pid, self.pid, signum)

    def stop_tree(self) -> None:
        """Stops the process and its descendants until `continue_tree`."""
        for _ in range(2):  # one of them may have been starting another
            self._signal_tree(signal.SIGSTOP)

    def continue_tree(self) -> None:
        self._signal_tree(signal.SIGCONT)

    def _signal_tree(self, signum: int) -> None:
        if platform.LINUX and not platform.PROC:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signum)
        for pid in tree_members(self.pid, self.mark, self.variable):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signum)

    def kill(self) -> None:
        """Kills the whole tree, also members with another parent by now."""
        kill_tree(self.pid, self.mark, self.variable)
        remove_marks(self.pid)

    def close(self) -> None:
        """Ends the process if it lives. May be called twice."""
        self._finalizer()


def _end(process: subprocess.Popen[bytes], mark: str, variable: str, ours: Sequence[int]) -> None:
    # Takes no `Child`: that object may already be garbage collected.
    if process.poll() is None:
        kill_tree(process.pid, mark, variable)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_REAP_S)
        remove_marks(process.pid)
    _close(ours)


def _three_pipes() -> list[tuple[int, int]]:
    made: list[tuple[int, int]] = []
    try:
        for _ in range(3):
            made.append(os.pipe())
    except OSError:  # no room for another
        _close([fd for pair in made for fd in pair])
        raise
    return made


def _close(fds: Sequence[int]) -> None:
    for fd in fds:
        with contextlib.suppress(OSError):
            os.close(fd)


def inherited(*, again: bool = False) -> dict[str, str]:
    """Returns the environment for a child, with the import path of this process.

    Leaves out KMP_DUPLICATE_LIB_OK: it turns an abort ("OMP: Error #15") into what the runtime
    itself calls "crashes or silently incorrect results". Leaves out the failpoint if the child
    replaces a process that died. Sets how memory is allocated, unless the user has.
    """
    left_out = {"KMP_DUPLICATE_LIB_OK"}
    if again and not os.environ.get("TTF_FAILPOINT_EVERY"):
        left_out.add("TTF_FAILPOINT")
    kept = {name: value for name, value in os.environ.items() if name not in left_out}
    # Python sets up its own folders; what somebody added to sys.path holds plugins.
    path = os.pathsep.join(dict.fromkeys(p for p in sys.path if p and not _is_pythons_own(p)))
    return {**_ALLOCATION, **kept, **({"PYTHONPATH": path} if path else {})}


def _is_pythons_own(path: str) -> bool:
    import sysconfig

    if path.endswith(".zip") and Path(path).name.startswith("python"):
        return True
    return any(Path(path).is_relative_to(own) for own in sysconfig.get_paths().values())


def _pidfd(pid: int) -> int | None:
    """Returns a descriptor that is readable once the process has ended, even if others hold its
    pipes; None without pidfds (the process is polled then):
    https://man7.org/linux/man-pages/man2/pidfd_open.2.html"""
    opener = getattr(os, "pidfd_open", None)
    if opener is None:
        return None
    try:
        return int(opener(pid))
    except OSError:  # an old kernel, or a sandbox that forbids it
        return None


# --- a process and whatever it started -------------------------------------------------------------


def kill_tree(session: int, mark: str, variable: str) -> None:
    """Kills every member of the tree except this process, within about a second.

    Call it before the process is reaped: until then no other process gets its number.
    """
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if os.getpgrp() != session:
            os.killpg(session, signal.SIGKILL)
    for _ in range(_ROUNDS):  # one of them may have been starting another; a kill takes a moment
        found = False
        for pid in tree_members(session, mark, variable):
            found = True
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if not found:
            return
        time.sleep(_PAUSE_S)


def remove_marks(pid: int) -> None:
    # LLVM's OpenMP registers itself in shared memory to detect a second copy, and cannot remove the
    # entry if it is killed.
    for left in _SHARED_MEMORY.glob(f"__KMP_REGISTERED_LIB_{pid}_*"):
        with contextlib.suppress(OSError):  # somebody else's, under a number that was used before
            left.unlink(missing_ok=True)


def tree_members(session: int, mark: str, variable: str) -> Iterator[int]:
    """Yields living processes with this session or mark, without this process and zombies. Without
    /proc: none; `kill_tree` reaches the process group, and life lines end the rest."""
    if platform.LINUX:
        if not platform.PROC:
            return
        wanted = f"{variable}={mark}".encode()
        seen = {os.getpid()}
        # A member that was listed may start another and end before it is looked at: complete is
        # only a list without anything new.
        while new := _processes() - seen:
            seen |= new
            for pid in new:
                with contextlib.suppress(OSError):  # gone meanwhile, or somebody else's
                    if _belongs(Path(f"/proc/{pid}"), session, wanted):
                        yield pid
        return
    import psutil  # type: ignore[import-untyped, unused-ignore]

    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.pid == os.getpid() or process.status() == psutil.STATUS_ZOMBIE:
                continue
            if os.getsid(process.pid) == session or process.environ().get(variable) == mark:
                yield process.pid


def _processes() -> set[int]:
    return {int(entry.name) for entry in os.scandir("/proc") if entry.name.isdigit()}


def _belongs(process: Path, session: int, wanted: bytes) -> bool:
    stat = (process / "stat").read_bytes()
    state, _, _, its_session = stat[stat.rindex(b")") + 2 :].split()[:4]
    if state in (b"Z", b"X"):
        return False
    return int(its_session) == session or wanted in (process / "environ").read_bytes().split(b"\0")
