"""What the rules see of a death: the signal's name, texts to search, plain facts."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Literal

from ttf.incidents.child_texts import CHILD_ABORT, CHILD_KILLED_FOR_SURE
from ttf.incidents.death import UNNAMED, Death
from ttf.machine.memory.limits import MACHINE
from ttf.process.activity import FOR_INPUT, IN_THE_KERNEL

# Where a rule searches. words: the error that the process reported, or the end of stderr. stderr:
# all of stderr that was kept. faulthandler: the stacks. kernel: the kernel log.
# stdout: the end of standard output, where it is known; only if nothing else names a cause.
Area = Literal["words", "stderr", "stdout", "faulthandler", "kernel"]

# Free bytes below which a folder counts as full: one file of ttf needs more.
DISK_LOW: Final = 1 << 20
NEAR_LIMIT: Final = 0.9
FAR_FROM_LIMIT: Final = 0.8
_LAST_LINES: Final = 30
_NEAR_THE_END: Final = 4
_FAILURE: Final = re.compile(
    r"(?i)\b(?:failed|failure|fatal|cannot|can't|could not|couldn't|unable to|not found|no such|"
    r"denied|refused)\b|\berror:"
)
_DEEP: Final = 8  # named native frames, all of one function
# No message of a library has lines so long. The rules search every line many times.
_LONGEST_LINE: Final = 2000
_LONG_LINE: Final = re.compile(rf"[^\n]{{{_LONGEST_LINE + 1},}}")
_TRACEBACK: Final = re.compile(r"Traceback \(most recent call last\):[ \t\r]*$", re.MULTILINE)
# Of several errors at once, each line begins with a bar; what the frames show is indented further.
_GROUP: Final = re.compile(r"Exception Group Traceback \(most recent call last\):")
_OF_GROUP: Final = re.compile(r"^ +\| (\S.*)")
# An error of syntax in the script itself is reported without a heading.
_SYNTAX: Final = re.compile(
    r'^  File "[^"\n]+", line \d+\n(?:[^\n]*\n){0,4}?(?:Syntax|Indentation|Tab)Error: [^\n]*\s*\Z',
    re.MULTILINE,
)
_CHAINED: Final = re.compile(
    r"The above exception was the direct cause|During handling of the above exception"
)
_SOURCE_LINE: Final = re.compile(r'^(.*  File "[^"\n]+", line \d+.*\n)(?: {4}).*$', re.MULTILINE)
_TOP_FRAME: Final = re.compile(
    r"(?:Current thread|Thread) 0x[0-9a-f]+.*\(most recent call first\):[ \t\r]*\n"
    r'[ \t]+File "(?P<file>[^"\n]+)", line (?P<line>\d+)(?: in (?P<function>[^\n]+))?'
)
# Exceptions that only a refused allocation raises; any code may raise a plain MemoryError.
_REFUSED_MEMORY: Final = ("OutOfMemoryError",)
# How faulthandler names the signals.
FATAL_SIGNALS: Final = {
    "Aborted": "SIGABRT",
    "Bus error": "SIGBUS",
    "Floating-point exception": "SIGFPE",
    "Illegal instruction": "SIGILL",
    "Segmentation fault": "SIGSEGV",
}
_FATAL: Final = re.compile(rf"Fatal Python error: ({'|'.join(FATAL_SIGNALS)})")
_WAITING: Final = re.compile(
    r"(?:threading|queue|selectors|subprocess)\.py:\d+ in "
    r"(?:wait|acquire|join|_wait_for_tstate_lock|get|select|_try_wait)$"
)
_FOR_A_CHILD: Final = re.compile(
    r"(?:multiprocessing[/\\]popen_\w+\.py:\d+ in (?:poll|wait)"
    r"|subprocess\.py:\d+ in (?:wait|_wait|_try_wait|_communicate))$"
)
_ON_NETWORK: Final = re.compile(
    r"(?:socket|ssl)\.py:\d+ in (?:readinto|read|recv\w*|send\w*|accept|create_connection|do_handshake)$"
)
_FOR_A_LOCK_FILE: Final = re.compile(
    r"(?:torch[/\\]utils[/\\]file_baton|[/\\]filelock[/\\]\w+)\.py:\d+ in (?:wait|acquire|_acquire)$"
)
# faulthandler writes at most 100 threads; then the one that crashed may be missing.
_MORE_THREADS: Final = re.compile(r"^\.\.\.$", re.MULTILINE)
# faulthandler writes at most 100 frames of a thread; gdb repeats a function that calls itself.
_MORE_FRAMES: Final = re.compile(r"^  \.\.\.$", re.MULTILINE)


@dataclass(frozen=True)
class DeathFacts:
    death: Death

    @cached_property
    def signal(self) -> str:
        """Returns for example 'SIGSEGV', or '' after an exit code.

        If the process crashed a second time while it wrote its stacks (threads still run then),
        returns the first signal.
        """
        if self.death.signal is None:
            return ""
        first = _FATAL.search(self.stacks) if self.death.signal == signal.SIGSEGV else None
        return FATAL_SIGNALS[first[1]] if first else signal_name(self.death.signal)

    @property
    def failed(self) -> bool:
        return self.death.signal is not None or bool(self.death.exit_code)

    @cached_property
    def areas(self) -> Mapping[Area, str]:
        death = self.death
        return {
            "words": self.words[1],
            "stderr": self._stderr,
            "stdout": last_words(capped(self.death.stdout))[1],
            "faulthandler": self.stacks,
            "kernel": capped(death.kernel),
        }

    @cached_property
    def _stderr(self) -> str:
        return capped(self.death.stderr)

    @cached_property
    def words(self) -> tuple[int, str]:
        """Returns the last words, and the line of stderr where they start (0: the error it
        reported)."""
        error = self.death.error
        if error is not None:
            told = f"{error.get('class', '')}: {error.get('message', '')}"
            return 0, without_source_lines(capped(f"{error.get('traceback') or ''}\n{told}"))
        return last_words(self._stderr[: self._dump_in_stderr])

    @cached_property
    def stacks(self) -> str:
        # Processes that are not ours write their stacks to stderr.
        return capped(self.death.faulthandler) or self._stderr[self._dump_in_stderr :]

    @cached_property
    def _dump_in_stderr(self) -> int:
        """Returns the offset in stderr where a dump of stacks starts; the length of stderr without
        one."""
        found = self._stderr.rfind("Fatal Python error: ")
        return found if found >= 0 else len(self._stderr)

    @cached_property
    def names(self) -> frozenset[str]:
        return frozenset([*self._ending(), *self._memory(), *self._surroundings(), *self._stacks()])

    def _ending(self) -> Iterator[str]:
        if self.death.finished:
            yield "finished"
        if self.death.hidden:
            yield "hidden"
        if self.failed:
            yield "failed"
        if self.death.signal is None and self.death.exit_code == 0:
            yield "exit-zero"
        words = self.areas["words"]
        if _TRACEBACK.search(words) or _SYNTAX.search(words) or self.death.error is not None:
            yield "traceback"
        if self.last_line:
            yield "last-line"
        if self.death.signal is not None and self.death.exit_code is not None:
            yield "through-a-shell"
        if self.death.signal is None:
            yield from self._of_a_child()
        if self._error_class:
            yield "uncaught"
        if (self.death.error or {}).get("known"):
            yield "told-by-ttf"
        if self._error_class in _REFUSED_MEMORY:
            yield "refused-memory"
        used = self.death.processor
        if used is not None and used.is_near(
            used.soft_s if self.signal == "SIGXCPU" else used.hard_s
        ):
            yield "cpu-near"

    def _of_a_child(self) -> Iterator[str]:
        words = self.areas["words"]
        if re.search(CHILD_KILLED_FOR_SURE, words):
            yield "child-killed"
        told = (fatal_signal(self.death.faulthandler) or 0) == signal.SIGABRT
        if told or re.search(CHILD_ABORT, words):
            yield "child-aborted"

    @property
    def _error_class(self) -> str:
        # What the interpreter or our own process reported, not what stands in stderr.
        return self.death.uncaught or str((self.death.error or {}).get("class", ""))

    def _memory(self) -> Iterator[str]:
        death = self.death
        if death.oom_kills:
            yield "oom-rose"
        if death.oom_source:
            yield "oom-counted"
        if MACHINE in death.oom_source:
            yield "oom-machine-wide"
        # What is measured is not what the system compares with a limit of the process itself.
        points = () if death.own_limit else death.memory
        shares = [point.held / point.limit for point in points if point.limit]
        if shares and shares[-1] >= NEAR_LIMIT:
            yield "near-limit"
        if shares and max(shares) < FAR_FROM_LIMIT:
            yield "far-from-limit"

    def _surroundings(self) -> Iterator[str]:
        death = self.death
        if death.changed_files:
            yield "changed-files"
        if any(change.cut for change in death.changed_files):
            yield "cut-file"
        if death.no_inodes or any(free < DISK_LOW for free in death.free_disk.values()):
            yield "disk-low"
        if len(death.openmp) > 1:
            yield "several-openmp"
        if death.newer_code:
            yield "newer-code"
        if death.others:
            yield f"others-{death.others}"

    def _stacks(self) -> Iterator[str]:
        if not self.stacks.strip():
            yield "no-stacks"
        if self.death.signal is None and _FATAL.search(self.death.faulthandler):
            yield "child-crashed"
        if _WAITING.search(self.top_frame):
            yield "waits-in-python"
        if _FOR_A_CHILD.search(self.top_frame):
            yield "waits-for-child"
        if _FOR_A_LOCK_FILE.search(self.top_frame):
            yield "waits-for-lock-file"
        if FOR_INPUT in self.death.reason:
            yield "waits-for-input"
        if IN_THE_KERNEL in self.death.reason:
            yield "waits-in-kernel"
        if _ON_NETWORK.search(self.top_frame):
            yield "waits-for-network"
        if self._is_deep():
            yield "deep-stack"
        if self.death.signal is not None and _is_of_a_foreign_thread(self.stacks):
            yield "foreign-thread"

    def _is_deep(self) -> bool:
        native = self.death.backtrace
        names = [] if native is None else [frame.function for frame in native.frames]
        if len(names) >= _DEEP and len(set(names)) == 1 and names[0] != UNNAMED:
            return True
        start = self.stacks.rfind("Current thread")
        crashed = self.stacks[start:].partition("\n\n")[0] if start >= 0 else ""
        return _MORE_FRAMES.search(crashed) is not None

    @property
    def last_line(self) -> str:
        """Returns the last line of the last words; may be ''."""
        lines = reversed(self.areas["words"].splitlines())
        # A line of signs alone ends a block: it is no reason.
        return next((line.strip() for line in lines if re.search(r"\w", line)), "")

    @property
    def likely_reason(self) -> tuple[str, bool]:
        """Returns the line of the last words that is most likely the reason, and whether it is the
        very last: hints and lists often follow a line that names a failure."""
        lines = [line.strip() for line in self.areas["words"].splitlines()]
        lines = [line for line in lines if re.search(r"\w", line)][-_NEAR_THE_END:]
        named = [line for line in lines if _FAILURE.search(line)]
        chosen = named[-1] if named else self.last_line
        return chosen, chosen == self.last_line

    @property
    def error_line(self) -> str:
        """Returns the line of the last words that names the exception, else the last line. More lines
        of the message, and of others, may follow it."""
        lines = self.areas["words"].splitlines()
        group = next((i for i, line in enumerate(lines) if _GROUP.search(line)), len(lines))
        for line in lines[group:]:
            if found := _OF_GROUP.match(line):
                return found[1]
        heads = [i for i, line in enumerate(lines) if _TRACEBACK.search(line)]
        if not heads:
            return self.last_line
        end = _end_of_traceback(lines, heads[-1])
        more = lines[end + 1 : end + 2] if lines[end].endswith(":") else []
        return " ".join(line.strip() for line in [lines[end], *more])

    @cached_property
    def top_frame(self) -> str:
        """Returns the Python frame that crashed as 'search.py:12 in search'; may be ''."""
        found = crashing_frame(self.stacks)
        if found is None:
            return ""
        where = f"{found['file']}:{found['line']}"
        return f"{where} in {found['function']}" if found["function"] else where


def fatal_signal(stacks: str) -> int | None:
    """The signal that a dump of faulthandler names first; None if it was made on demand."""
    found = _FATAL.search(stacks)
    return None if found is None else int(signal.Signals[FATAL_SIGNALS[found[1]]])


def capped(text: str) -> str:
    """The beginning and the end of each line that is too long; line numbers stay."""
    half = _LONGEST_LINE // 2
    return _LONG_LINE.sub(lambda line: f"{line[0][:half]} ... {line[0][-half:]}", text)


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def crashing_frame(dump: str) -> re.Match[str] | None:
    """Returns the innermost Python frame of the current thread. A crash without a current thread
    was in a thread that Python does not know, or in the dump itself: no frame. Without a crash: of
    the last thread, because faulthandler writes the main thread last. Dumps may be truncated
    anywhere."""
    current = dump.rfind("Current thread")
    if current >= 0:
        return _TOP_FRAME.search(dump, current)
    if _FATAL.search(dump):
        return None
    *_, last = [None, *_TOP_FRAME.finditer(dump)]
    return last


def _is_of_a_foreign_thread(dump: str) -> bool:
    """Whether a thread crashed that Python does not know: then no thread is the current one."""
    once = len(_FATAL.findall(dump)) == 1
    whole = not _MORE_THREADS.search(dump)
    return once and whole and "Current thread" not in dump and "Thread 0x" in dump


def last_words(stderr: str) -> tuple[int, str]:
    """Returns the last traceback with its causes and the text after it, if it is at the end of
    stderr; else the last lines. The number is the line where the text starts, counted from 1."""
    lines = stderr.removesuffix("\n").split("\n")  # as line numbers count them, also with \r within
    end = max(0, len(lines) - _LAST_LINES)
    heads = [i for i, line in enumerate(lines) if _TRACEBACK.search(line)]
    start = end
    if heads and _end_of_traceback(lines, heads[-1]) >= end:
        start = heads.pop()
        while heads and any(_CHAINED.search(line) for line in lines[heads[-1] : start]):
            start = heads.pop()
    return start + 1, without_source_lines("\n".join(lines[start:]))


def without_source_lines(text: str) -> str:
    """Removes quoted code: code that handles errors contains their texts. Keeps line numbers."""
    return _SOURCE_LINE.sub(r"\1", text)


def _end_of_traceback(lines: list[str], head: int) -> int:
    """Returns the index of the first unindented line after the frames. This line names the
    exception."""
    for i in range(head + 1, len(lines)):
        text = lines[i].partition("]: ")[2] if lines[i].startswith("[") else lines[i]
        if text and not text[0].isspace():
            return i
    return len(lines) - 1
