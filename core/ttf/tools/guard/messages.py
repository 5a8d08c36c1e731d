"""The guard's messages: few lines on standard error, each with its name as prefix."""

from __future__ import annotations

import contextlib
import os
import re
import select
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from ttf.incidents.classify import LIMIT, MEASURED, NATIVE_STACK
from ttf.incidents.death import Death, Finding
from ttf.incidents.facts import DeathFacts, crashing_frame, signal_name
from ttf.incidents.raised import of_a_library, own_place
from ttf.process import platform
from ttf.text.numbers import duration
from ttf.text.terminal import Part, painted, visible, wants_colour, wrapped
from ttf.tools.guard.deaths import REFUSED_MEMORY, Ended

PREFIX: Final = "ttf guard:"
_WIDEST: Final = 100
_STDERR: Final = 2
# Sources of the evidence that quotes the process.
_WORDS: Final = ("stderr:", "stdout:", "error report")
# Of the others, the message or the file says more than the function.
_NATIVE: Final = ("segfault", "abort", "illegal-instruction", "heap-corruption")
_FRAME: Final = re.compile(r'\s+File "(?P<file>[^"]+)", line (?P<line>\d+) in (?P<function>[^\n]+)')

NOT_AFTER_0: Final = (
    "not restarted: the command ended with exit code 0, and only a failure of the command itself is "
    "followed by a restart"
)


class Voice:
    def __init__(self) -> None:
        self._colour = wants_colour(os.isatty(_STDERR))

    def __call__(self, *paragraphs: str, at_line_start: bool = True) -> None:
        # A reader that is slow or gone must not block the guard.
        width = min(_WIDEST, shutil.get_terminal_size((_WIDEST, 24)).columns) - len(PREFIX) - 1
        room = max(30, width)
        lines = [line for text in paragraphs for line in wrapped(visible(text), room) or [""]]
        mark = painted(Part(PREFIX, "bold yellow"), colour=self._colour)
        data = "".join(f"{mark} {line}\n" for line in lines)
        if select.select([], [_STDERR], [], 1.0)[1]:
            with contextlib.suppress(OSError):
                os.write(_STDERR, (data if at_line_start else f"\n{data}").encode(errors="replace"))


def code_of(ended: Ended) -> int:
    """The guard's exit code: the command's own, or 128 + signal.

    After the guard has ended a command, its exit code 0 does not count.
    """
    if ended.returncode < 0:
        return 128 - ended.returncode
    if ended.returncode == 0 and ended.killed in ("hang", "memory"):
        return 128 + signal.SIGTERM
    return ended.returncode


def told(ended: Ended, finding: Finding, death: Death, evidence: Path | None) -> Iterator[str]:
    """The paragraphs about an end."""
    stacks = death.faulthandler
    how = f"ended with exit code {ended.returncode}"
    if ended.returncode < 0:
        how = f"died of {signal_name(-ended.returncode)} (exit code {code_of(ended)})"
    if ended.killed in ("hang", "memory"):
        how = f"was ended by ttf guard (exit code {code_of(ended)})"
    after = f"after {duration(ended.wall_s)}"
    if death.command_ended:
        but = "but" if death.hidden else "because"
        below = f"process {death.pid} below it died of {signal_name(death.signal or 0)}"
        if death.signal is None:
            below = f"process {death.pid} below it ended with an uncaught {death.uncaught}"
        yield f"the command {how} {after}, {but} {below}: {finding.name}"
    else:
        yield f"the command {how} {after}: {finding.name}"
    yield finding.explanation
    for piece in finding.evidence:
        if piece.text.startswith("Python was at "):
            yield f"{piece.text}{own_frame(stacks)}"
        if piece.source == NATIVE_STACK:
            yield piece.text
    yield from refused_memory(finding, death)
    advice = [r.text for r in finding.remedies if stacks.strip() or "the stacks in" not in r.text]
    if advice:
        yield f"What may help: {' '.join(advice[:2])}"
    if finding.name in _NATIVE and death.backtrace is None and platform.LINUX:
        yield "To see the native function that crashed: ttf guard --core"
    page = f"   ttf explain {finding.name}"
    if evidence is not None:
        yield f"Evidence: {evidence}{page}"


def refused_memory(finding: Finding, death: Death) -> Iterator[str]:
    """The words of a refused allocation, where Python was, and the limit, as far as known."""
    if finding.name != REFUSED_MEMORY:
        return
    said = [e.text for e in finding.evidence if e.source.startswith(_WORDS)]
    where = own_place(DeathFacts(death).areas["words"])
    if said:
        yield f"The message: {said[0]}{where and f', at {where}'}"
    known = {e.source: e.text for e in finding.evidence}
    if LIMIT in known:
        yield f"The limit: {known[LIMIT]}"
    elif MEASURED in known:
        yield f"Of the command and all its processes: {known[MEASURED]}"


def exception_behind_0(name: str) -> str:
    return (
        f"a process below the command ended with an uncaught {name}; exit code 0 hides it: in bash, "
        "use `set -eo pipefail`"
    )


def own_frame(stacks: str) -> str:
    """', called from train.py:8 in batch': the innermost frame of the crashed thread that is not
    in a library; '' if it is the innermost of all, or there is none.

    >>> own_frame('Current thread 0x1 (most recent call first):\\n'
    ...     '  File "/x/site-packages/a.py", line 3 in get\\n  File "/x/train.py", line 8 in batch\\n')
    ', called from /x/train.py:8 in batch'
    """
    innermost = crashing_frame(stacks)
    if innermost is None or not of_a_library(innermost["file"]):
        return ""
    for line in stacks[innermost.end() :].lstrip("\n").splitlines():
        frame = _FRAME.match(line)
        if frame is None:
            return ""
        if not of_a_library(frame["file"]):
            return f", called from {frame['file']}:{frame['line']} in {frame['function']}"
    return ""


def again(pause_s: float, number: int, most: float) -> str:
    bound = "" if most == float("inf") else f" of {most:.0f}"
    return f"restarting the command in {pause_s:g} s (restart {number}{bound})"
