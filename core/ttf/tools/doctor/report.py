"""The results of the checks for people and for scripts, and the exit code."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ttf.errors import ExitCode, TtfError
from ttf.hookspecs import Status, Verdict
from ttf.host.distribution import FULL, NAME
from ttf.host.plugins import OURS
from ttf.text.terminal import Line, Part, is_terminal, line_of, wrapped
from ttf.tools.doctor.check import DOCS, Check, skip, warn
from ttf.tools.doctor.context import Examination
from ttf.tools.doctor.task_failures import one_line

MARKS: Final[dict[Status, str]] = {"ok": "[ok]", "warn": "[!]", "fail": "[x]", "skip": "[-]"}
_COLORS: Final[dict[Status, str]] = {"ok": "green", "warn": "yellow", "fail": "red", "skip": "blue"}
_INDENT: Final = "     "
_REMEDY: Final = "what to do:"
_WIDTH: Final = 100
_LONGEST: Final = 2000
_MOST_EVIDENCE: Final = 6
_NO_RUN: Final = "needs a configuration: ttf doctor RUN.toml"


@dataclass(frozen=True, kw_only=True)
class Result:
    check: Check
    verdict: Verdict
    seconds: float

    @property
    def docs(self) -> str:
        # A plugin's check is explained by its authors.
        return f"{DOCS}#{self.check.id}" if self.check.distribution == OURS else ""

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.check.id,
            "title": self.check.title,
            **self.verdict.to_json(),
            "docs": self.docs,
            "distribution": self.check.distribution,
            "seconds": round(self.seconds, 3),
        }


def examined(check: Check, exam: Examination) -> Result:
    """Runs a check. If the check itself fails, the result is a warning and the other checks go on."""
    began = time.monotonic()
    if check.of_run and exam.run_toml is None:
        verdict = skip(_NO_RUN)
    else:
        try:
            verdict = check.run(exam)
        except (TtfError, OSError, ValueError, LookupError, RuntimeError) as error:
            verdict = warn(
                f"The check itself failed: {type(error).__name__}: {one_line(str(error))}",
                remedy="Please report this, with the output of ttf doctor --json.",
            )
    return Result(check=check, verdict=verdict, seconds=time.monotonic() - began)


def exit_code(results: Sequence[Result]) -> ExitCode:
    """A bad configuration (2) comes before an unsafe environment (6), which comes before bad data
    (3): reading data in an unsafe environment proves little."""
    causes = {r.verdict.cause for r in results if r.verdict.status == "fail"}
    if "configuration" in causes:
        return ExitCode.USAGE
    if "environment" in causes:
        return ExitCode.UNSAFE
    return ExitCode.BAD_DATA if "data" in causes else ExitCode.DONE


def document(results: Sequence[Result]) -> dict[str, Any]:
    code = exit_code(results)
    return {
        "ok": code == ExitCode.DONE,
        "exit_code": int(code),
        "checks": [result.to_json() for result in results],
    }


# --- for people ------------------------------------------------------------------------------------


def lines(result: Result, *, width: int, verbose: bool) -> Iterator[Line]:
    verdict = result.verdict
    if result.check.of_run and verdict.detail == _NO_RUN and not verbose:
        return
    mark = Part(MARKS[verdict.status].ljust(4), f"bold {_COLORS[verdict.status]}")
    first, *rest = _wrapped(
        one_line(verdict.detail, _LONGEST), taken=len(_INDENT) + width + 2, hang=0
    )
    yield line_of(mark, f" {result.check.id.ljust(width)}  {first}")
    yield from (line_of(" " * (len(_INDENT) + width + 2) + text) for text in rest)
    for line in _evidence(verdict, verbose=verbose):
        yield from _indented(_wrapped(f"- {one_line(line, _LONGEST)}"))
    if verdict.remedy:
        first, *rest = _wrapped(f"{_REMEDY} {one_line(verdict.remedy, _LONGEST)}")
        yield line_of(_INDENT, Part(_REMEDY, "bold"), first.removeprefix(_REMEDY))
        yield from _indented(rest)
    if verdict.status == "fail" and not verbose:
        yield line_of(f"{_INDENT}more: {result.check.again}")


def _indented(lines: Sequence[str]) -> Iterator[Line]:
    return (line_of(_INDENT + line) for line in lines)


def _evidence(verdict: Verdict, *, verbose: bool) -> Iterator[str]:
    """All of it if `verbose`; else the first lines for a failure."""
    if verbose:
        yield from verdict.evidence
    elif verdict.status == "fail":
        yield from verdict.evidence[:_MOST_EVIDENCE]
        more = len(verdict.evidence) - _MOST_EVIDENCE
        if more > 0:
            yield f"({more} more line{'s' * (more != 1)}: -v)"


def _wrapped(text: str, *, taken: int = len(_INDENT), hang: int = 2) -> list[str]:
    """Wrapped for a terminal; in a pipe a line stays one line, so that it can be searched."""
    if not is_terminal(sys.stdout) or not text:
        return [text]
    width = min(_WIDTH, shutil.get_terminal_size().columns - 1) - taken
    return wrapped(text, max(30, width), hang=hang)


def last_line(results: Sequence[Result], *, all_made: bool) -> Part:
    """`all_made`: the user left out no check."""
    of = {status: [r.check.id for r in results if r.verdict.status == status] for status in MARKS}
    made = len(results) - len(of["skip"])
    checks = f"{made} check{'s' * (made != 1)}"
    if of["fail"]:
        text = f"{len(of['fail'])} of {checks} failed: {', '.join(of['fail'])}."
        return Part(text, "bold red")
    if of["warn"]:
        count = len(of["warn"])
        text = f"{checks}, none failed; {count} warning{'s' * (count != 1)}: "
        return Part(f"{text}{', '.join(of['warn'])}.", "bold yellow")
    if not made:
        return Part("No check could run.")
    ready = " Ready to train." if all_made and NAME == FULL else ""
    return Part(f"{checks}, all ok.{ready}", "bold green")
