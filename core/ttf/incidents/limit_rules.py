"""The rules for limits of the system that are not memory: threads, shared memory, watched files.
`rules.py` sets their position."""

from __future__ import annotations

from typing import Final

from ttf.errors import ExitCode
from ttf.incidents import error_texts
from ttf.incidents.native_rules import ABORTS
from ttf.incidents.rule import EXIT, Rule, When

NO_THREAD: Final = (
    "Usually too many threads or processes are running (ulimit -u, pids.max of a cgroup), or a limit "
    "of memory leaves no room for the stack of the thread (ulimit -v). Fewer threads help: "
    "OMP_NUM_THREADS."
)
_SHARED_MEMORY: Final = (
    "Shared memory (/dev/shm) had no room {at} for what {who_object} wanted to share with other "
    "processes{full}. In a container, it often has only 64 MB."
)

_NEWER_DOCKER: Final = (
    "Update docker (20.10.10 or later) and libseccomp on the host, or use an image with an older system.",
    "As a test, start the container with --security-opt seccomp=unconfined.",
)

LIMIT_RULES: Final[tuple[Rule, ...]] = (
    Rule(
        "alloc-failure",
        When(
            text=error_texts.THREADS_FORBIDDEN,
            areas=("stderr",),
            signals=("SIGINT", "SIGSEGV", *ABORTS),
            facts=("failed",),
            without=("finished",),
        ),
        "{who} was not permitted to start a thread {at}. A limit of threads or of memory has other words "
        "(Resource temporarily unavailable): probably a sandbox (seccomp) forbids it. Usually the C "
        "library is newer than docker on this machine, which does not know its system call clone3. If "
        "Python reports a KeyboardInterrupt, OpenBLAS sent it: nobody pressed Ctrl-C.",
        advice=_NEWER_DOCKER,
    ),
    Rule(
        "alloc-failure",
        When(
            text=error_texts.THREADS_REFUSED,
            areas=("words", "stderr"),
            signals=(*ABORTS, "SIGSEGV"),
            facts=("failed",),
            without=("finished", "traceback"),
        ),
        "The system refused a thread to a library in {who_object} {at}. " + NO_THREAD,
    ),
    Rule(
        "alloc-failure",
        When(
            text=error_texts.OPENBLAS_INTERRUPTS,
            areas=("stderr",),
            signals=("SIGINT", EXIT),
            facts=("failed",),
        ),
        "The system refused a thread to OpenBLAS {at}. Then OpenBLAS itself sent SIGINT to "
        "{who_object}, and Python reported this as KeyboardInterrupt. " + NO_THREAD,
    ),
    Rule(
        "disk-full",
        When(text=error_texts.SHM_FULL, signals=ABORTS, facts=("failed", "disk-low")),
        _SHARED_MEMORY,
        certain=True,
        ends_with=ExitCode.STORAGE,
    ),
    Rule(
        "disk-full",
        When(text=error_texts.SHM_FULL, signals=ABORTS, facts=("failed",)),
        _SHARED_MEMORY,
        ends_with=ExitCode.STORAGE,
    ),
    Rule(
        "python-error",
        When(text=error_texts.WATCHES, signals=(EXIT,), facts=("failed", "traceback")),
        "The user of {who_object} may not watch more files {at} (inotify). The system reports this "
        "limit with the words of a full disk: {error} To raise it: sysctl fs.inotify.max_user_watches.",
        own_exit_code=True,
    ),
)
