"""Sentences added to an explanation, mostly to exclude a common wrong cause."""

from __future__ import annotations

from typing import Final

from ttf.incidents.error_texts import NATIVE_CLASSES
from ttf.incidents.rule import OURS, Note, When

NOTES: Final[tuple[Note, ...]] = (
    Note(
        names=("omp-duplicate",),
        when=When(),
        text="Setting KMP_DUPLICATE_LIB_OK is not a way out: it silences the check, and its own "
        "authors warn of crashes and silently wrong results.",
    ),
    Note(
        names=("omp-duplicate", "alloc-failure", *NATIVE_CLASSES),
        when=When(facts=("through-a-shell",)),
        text="Exit code {code} is how a shell reports {signal}.",
    ),
    Note(
        names=("killed",),
        when=When(signals=("SIGKILL",), killed_by_us=("",), facts=("oom-counted",)),
        text="No memory counter of the kernel rose: this was not the OOM killer.",
    ),
    Note(
        names=("killed",),
        when=When(signals=("SIGKILL",), killed_by_us=("",), without=("oom-counted",)),
        text="The kernel's counters of memory kills could not be read here, so that the OOM killer "
        "can be neither blamed nor ruled out.",
    ),
    Note(
        names=("killed",),
        when=When(signals=("SIGKILL",), facts=("near-limit",)),
        text="At the last look it held nearly all the memory it may.",
    ),
    Note(
        names=(*NATIVE_CLASSES, "vanished", "unknown"),
        when=When(facts=("far-from-limit",)),
        text="Memory was not short.",
    ),
    Note(
        names=("segfault", "abort", "heap-corruption", "hang"),
        when=When(facts=("several-openmp",)),
        text="Two OpenMP runtimes were loaded in it, which is a known cause of such ends, but not "
        "proven here.",
    ),
    Note(
        names=("segfault",),
        when=When(signals=("SIGSEGV",), facts=("no-stacks",), processes=OURS),
        text="No stack was written: typical of a stack that overflowed in a thread, and of a crash "
        "before Python was ready.",
    ),
    Note(
        names=("hang",),
        when=When(facts=("waits-in-python",)),
        text="Its main thread was waiting for another thread or process.",
    ),
    Note(
        names=("alloc-failure",),
        when=When(),
        text="The kernel killed nothing: the request was refused.",
    ),
    Note(
        names=(*NATIVE_CLASSES, "killed", "hang", "vanished", "oom-kill"),
        when=When(facts=("changed-files",), without=("cut-file",)),
        text="{file} changed while it was in use (before: {was}; now: {now}).",
    ),
)
