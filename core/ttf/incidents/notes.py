"""Sentences added to an explanation, mostly to exclude a common wrong cause."""

from __future__ import annotations

from typing import Final

from ttf.incidents import error_texts
from ttf.incidents.classes import CLASSES
from ttf.incidents.error_texts import NATIVE_CLASSES
from ttf.incidents.limit_rules import NO_THREAD
from ttf.incidents.rule import EXIT, OURS, Note, When

NOTES: Final[tuple[Note, ...]] = (
    Note(
        names=("omp-duplicate",),
        when=When(),
        text=(
            "Do not set KMP_DUPLICATE_LIB_OK: it only silences the check. Its authors warn of "
            "crashes and wrong results."
        ),
    ),
    Note(
        names=("omp-duplicate", "alloc-failure", *NATIVE_CLASSES),
        when=When(facts=("through-a-shell",)),
        text="A shell reports {signal} as exit code {code}.",
    ),
    Note(
        names=tuple(CLASSES),
        when=When(facts=("hidden",)),
        text=(
            "The command itself ended with exit code 0: a pipeline or a script hid this death. "
            "With `set -o pipefail` in bash, a pipeline fails if one of its programs does."
        ),
    ),
    Note(
        names=("killed",),
        when=When(signals=("SIGKILL",), killed_by_us=("",), facts=("oom-counted",)),
        text="No memory counter of the kernel increased: this was not the OOM killer.",
    ),
    Note(
        names=("killed",),
        when=When(signals=("SIGKILL",), killed_by_us=("",), without=("oom-counted",)),
        text=(
            "ttf could not read the kernel's counters of OOM kills, so it cannot say whether "
            "this was the OOM killer."
        ),
    ),
    Note(
        names=("killed",),
        when=When(signals=("SIGKILL",), facts=("near-limit",)),
        text="At the last measurement, the process had almost reached its memory limit.",
    ),
    Note(
        names=(*NATIVE_CLASSES, "vanished", "unknown"),
        when=When(facts=("far-from-limit",)),
        text="Enough memory was free.",
    ),
    Note(
        names=("alloc-failure",),
        when=When(text=error_texts.MAP_REFUSED, facts=("far-from-limit",)),
        text=(
            "Most memory was free. Perhaps the request was very large, or the process reached a limit "
            "of its own: its address space (ulimit -v), or the number of its memory maps "
            "(sysctl vm.max_map_count)."
        ),
    ),
    Note(
        names=("segfault", "abort", "heap-corruption", "hang"),
        when=When(facts=("several-openmp",)),
        text=(
            "The process had loaded two OpenMP runtimes. This is a known cause of such "
            "failures, but it is not proven here."
        ),
    ),
    Note(
        names=("segfault",),
        when=When(signals=("SIGSEGV",), facts=("no-stacks",), processes=OURS),
        text=(
            "There are no Python stacks. Typical causes: a stack overflow in a thread, or a "
            "crash before Python had started."
        ),
    ),
    Note(
        names=NATIVE_CLASSES,
        when=When(facts=("foreign-thread",)),
        text=("The thread that crashed ran no Python code: probably it belongs to a library."),
    ),
    Note(
        names=("hang",),
        when=When(facts=("waits-in-python",), without=("waits-for-child",)),
        text="The main thread of the process was waiting for another thread or process.",
    ),
    Note(
        names=("hang",),
        when=When(facts=("waits-for-child",)),
        text=(
            "The main thread of the process was waiting for the end of a child process, so the cause is "
            "in the child, or a pipe between them is full. A child that was made by fork has none of "
            "the threads of its parent: OpenMP and BLAS can wait for them for ever."
        ),
    ),
    Note(
        names=("python-error",),
        when=When(text=error_texts.INPUT_OUTPUT, signals=(EXIT,)),
        text=(
            "This error comes from a disk or a network file system that failed. Also from a terminal "
            "that was closed, if the line of the error prints something."
        ),
    ),
    Note(
        names=("python-error",),
        when=When(text=error_texts.NO_LOCK, signals=(EXIT,)),
        text=(
            "Its locks are files in shared memory: /dev/shm is missing here, or this user may not write to "
            "it. Without it, no worker processes of multiprocessing or of a DataLoader can start."
        ),
    ),
    Note(
        names=("cxx-exception",),
        when=When(text=error_texts.CXX_NO_THREAD, areas=("words", "stderr")),
        text="Usually the system refused a thread. " + NO_THREAD,
    ),
    Note(
        names=("python-error",),
        when=When(text=error_texts.OF_TWO_VERSIONS, facts=("newer-code",)),
        text=(
            "{newer} was written after this process had started: possibly the process used code of two "
            "versions, for example during an upgrade. A new start loads one version."
        ),
    ),
    Note(
        names=("hang",),
        when=When(facts=("waits-for-network",)),
        text="The main thread of the process was waiting for the network: for an answer, or to be "
        "connected.",
    ),
    Note(
        names=NATIVE_CLASSES,
        when=When(text=error_texts.FINALIZING, areas=("faulthandler",)),
        text="Python was shutting down: the code of the script had ended.",
    ),
    Note(
        names=("segfault",),
        when=When(facts=("deep-stack",)),
        text="The stack of the thread that crashed is very deep: probably a recursion used it up.",
    ),
    Note(
        names=("segfault",),
        when=When(signals=("SIGSEGV",), text=error_texts.NOT_WRITABLE, areas=("stderr",)),
        text=(
            "Before, torch warned of an array that is not writable. To write into a tensor that "
            "shares it, as operations in place do, causes this signal."
        ),
    ),
    Note(
        names=(*NATIVE_CLASSES, "killed", "hang", "vanished", "oom-kill"),
        when=When(facts=("changed-files",), without=("cut-file",)),
        text="{file} changed while the process used it (before: {was}; now: {now}).",
    ),
)
