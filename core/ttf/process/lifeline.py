"""How a child leaves with its parent: life line, parent-death signal, keeper; stacks on demand.

    parent ~~~ life line ~~~> child --> whatever it started
       ~~~~~~~ life line ~~~> keeper (a fork of the child)

The life line is a pipe of which the parent alone holds the writing end: where the parent ends,
however it ends, the kernel closes that end, and the reader meets end of file.

Several nets, because each has a hole: a thread that reads the life line cannot act while C code
holds the interpreter lock; the parent-death signal is Linux's alone and follows the thread that
spawned; neither ends what the child has started itself. That is left to a keeper: another process,
which can be killed.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, Final, NoReturn

from ttf.process import platform
from ttf.process.child import kill_tree, remove_marks

ORPHANED: Final = 120  # exit code of a child without its parent; nobody reads it
# Exit code of a child whose parent was stopped (SIGSTOP) and cannot watch it.
PARENT_STOPPED: Final = 121
# Exit code of a child whose pipes were closed by code of its own.
PIPES_CLOSED: Final = 122
_PR_SET_PDEATHSIG: Final = 1
_FIRST_VICTIM: Final = "1000"
_LOOK_EVERY_S: Final = 0.4
_KEEPER_LOOKS_EVERY_S: Final = 0.2
_STOPPED_LOOKS: Final = 6
_MOST_FILES: Final = 1 << 16
# faulthandler keeps only the file descriptor. If it were closed, its number would go to another
# file.
_KEPT_OPEN: Final[list[IO[Any]]] = []


def parent_death_signal(signum: int) -> Callable[[], None]:
    """Returns a function that requests this signal for the end of the thread that spawned the
    caller.

    Linux only; elsewhere the function does nothing. Everything is loaded here, so the function may
    be called between fork and exec. The kernel forgets the request at a fork, and at an exec that
    changes the user (sudo, set-user-ID):
    https://man7.org/linux/man-pages/man2/PR_SET_PDEATHSIG.2const.html
    """
    if not platform.LINUX:
        return lambda: None
    import ctypes

    prctl = ctypes.CDLL(None, use_errno=True).prctl
    return lambda: prctl(_PR_SET_PDEATHSIG, int(signum))


_APPEND: Final = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK


def die_with_parent(parent: int) -> None:
    """Ends this process with the thread that spawned it (Linux; elsewhere only the life line does).

    `parent` is the pid of the process that spawned this one.
    """
    parent_death_signal(signal.SIGKILL)()
    # It may have ended before we asked: the kernel tells that nobody, but we have another parent.
    if os.getppid() != parent:
        os._exit(ORPHANED)


def leave_without_pipes() -> NoReturn:
    """Ends this process, whose pipes were closed by code of its own."""
    with contextlib.suppress(OSError):  # this one may be closed as well
        os.write(2, b"ttf: code in this process closed pipes that it had not opened\n")
    os._exit(PIPES_CLOSED)


def be_killed_first() -> None:
    # If memory runs out, the kernel kills this process before its parent. Raising the own score
    # needs no privilege: https://docs.kernel.org/filesystems/proc.html
    if platform.LINUX:
        try:
            Path("/proc/self/oom_score_adj").write_text(_FIRST_VICTIM)
        except OSError as error:  # a sandbox: then any of us may be chosen
            print(f"oom_score_adj was not changed: {error}", file=sys.stderr)


def stacks_to(path: Path | None) -> None:
    """Makes native deaths and SIGUSR1 write the Python stacks of all threads to `path`; None:
    stderr."""
    file: IO[Any] = sys.stderr
    if path is not None:
        # In a run's folder: never through a link, and no pipe is waited for.
        file = os.fdopen(os.open(path, _APPEND, 0o666), "ab", buffering=0)
    _KEPT_OPEN.append(file)
    faulthandler.enable(file=file, all_threads=True)
    # A handler in C: it also runs while C code holds the interpreter lock.
    faulthandler.register(signal.SIGUSR1, file=file, all_threads=True, chain=False)


def leave_when_stopped(parent: int) -> threading.Thread:
    """Starts the thread that ends this process if its parent stays stopped: no hang and no lack of
    memory would be noticed. If the terminal stops the parent, this process is stopped first."""
    thread = threading.Thread(target=_watch, args=(parent,), name="ttf-parent-watch", daemon=True)
    thread.start()
    return thread


def _watch(parent: int) -> None:
    stopped_before = False
    while True:
        time.sleep(_LOOK_EVERY_S)
        stopped = is_stopped(parent)
        # Twice in a row: Ctrl-Z stops the parent a moment after it has stopped us, and `fg`
        # continues it a moment before it continues us.
        if stopped and stopped_before:
            os._exit(PARENT_STOPPED)
        stopped_before = stopped


def is_stopped(pid: int) -> bool:
    """Whether a process is stopped by SIGSTOP. False if it is gone."""
    if platform.LINUX:
        try:
            stat = Path(f"/proc/{pid}/stat").read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            return False
        return stat[stat.rindex(b")") + 2 :][:1] == b"T"
    import psutil  # type: ignore[import-untyped, unused-ignore]

    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_STOPPED)
    except psutil.NoSuchProcess:
        return False


# --- the keeper ------------------------------------------------------------------------------------


def start_keeper(
    lifeline: int, mark: str, *, grace_s: float = 0.0, watched_parent: int | None = None
) -> None:
    """Forks a process that ends this process and its descendants once the parent is gone.

    `mark`: the variable that all of them carry. `grace_s`: time for a child that can leave by
    itself. `watched_parent`: if it stays stopped, they are ended as well.

    With two nested children (trainer, worker) the inner keeper must finish first: the outer keeper
    ends it, too, and cannot find processes that the inner child started without marks. So only the
    outer child has a grace.

    Call it only with one thread and no library loaded: a fork after any OpenMP work hangs
    (https://gcc.gnu.org/bugzilla/show_bug.cgi?id=58378). The keeper holds the life line, to see its
    end, and closes all other descriptors: a pipe held by it would never reach its end of file.
    """
    child = os.getpid()
    if os.fork():
        return
    try:
        os.closerange(0, lifeline)
        os.closerange(lifeline + 1, _MOST_FILES)
        # Stopped with the whole run (Ctrl-Z), it must go on when the child dies: it has to end
        # what is left. It stays beyond that: a fork has not inherited the wish to die.
        parent_death_signal(signal.SIGCONT)()
        _keep_watch(child, lifeline, grace_s, watched_parent)
        kill_tree(child, os.environ[mark], mark)
        remove_marks(child)
    finally:
        os._exit(0)


def _keep_watch(child: int, lifeline: int, grace_s: float, parent: int | None) -> None:
    """Returns when the child is gone or must be ended."""
    line = select.poll()
    line.register(lifeline, 0)  # its end alone: what is said there is for the child
    stopped = 0
    while os.getppid() == child:  # an orphan is given another parent
        if line.poll(1000 * _KEEPER_LOOKS_EVERY_S):
            time.sleep(grace_s)
            return
        stopped = stopped + 1 if parent is not None and is_stopped(parent) else 0
        if stopped >= _STOPPED_LOOKS:
            return
