"""Verdicts on tasks that failed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ttf.hookspecs import Cause, Verdict
from ttf.supervise.isolated_tasks import Ended
from ttf.text import terminal
from ttf.tools.doctor.check import fail

_MOST_LINES: Final = 4
_LONGEST: Final = 240


def failed(
    what: str, ended: Ended, *more: str, remedy: str, cause: Cause = "environment"
) -> Verdict:
    """`more` evidence comes after the task's own."""
    text = f"{what}: {in_a_word(ended)}."
    return fail(text, *evidence(ended), *more, remedy=remedy, cause=cause)


def in_a_word(ended: Ended) -> str:
    """'omp-duplicate (SIGABRT)' for a death, 'ImportError: ...' for an error."""
    if ended.finding is not None and ended.death is not None:
        return f"{ended.finding.name}{_ending(ended)}"
    if ended.error is not None:
        return one_line(f"{ended.error['class']}: {ended.error['message']}")
    return "it succeeded"


def _ending(ended: Ended) -> str:
    from ttf.incidents.facts import signal_name

    assert ended.death is not None
    if ended.death.killed_by_us == "hang":
        return ""
    if ended.death.signal is not None:
        return f" ({signal_name(ended.death.signal)})"
    return f" (exit code {ended.death.exit_code})"


def evidence(ended: Ended) -> Iterator[str]:
    if ended.finding is not None:
        yield f"class {ended.finding.name}: {ended.finding.explanation}"
    if ended.stage:
        yield f"last stage: {ended.stage}"
    if ended.finding is not None:
        yield from (f"{line.source}: {line.text}" for line in ended.finding.evidence)
    if ended.error is not None:
        yield one_line(f"{ended.error['class']}: {ended.error['message']}")
        if ended.error.get("hint"):
            yield one_line(str(ended.error["hint"]))
    if ended.finding is not None:
        yield from (f"stderr: {line}" for line in _stderr_lines(ended.stderr))


def _stderr_lines(text: str) -> list[str]:
    """The last lines; if stacks were dumped, the innermost frames of the main thread."""
    lines = [one_line(line) for line in text.splitlines() if line.strip()]
    stacks = [i for i, line in enumerate(lines) if line.endswith("(most recent call first):")]
    if stacks:
        return lines[stacks[-1] : stacks[-1] + _MOST_LINES]
    return lines[-_MOST_LINES:]


def one_line(text: str, longest: int = _LONGEST) -> str:
    """The words on one line without control characters, at most `longest`."""
    return terminal.one_short_line(" ".join(text.split()), longest)
