"""A check, and short constructors for its four verdicts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ttf.hookspecs import Cause, Verdict
from ttf.host.plugins import OURS
from ttf.text.shell import quoted
from ttf.tools.doctor.context import Examination

DOCS: Final = "docs/doctor.md"


@dataclass(frozen=True)
class Check:
    id: str
    title: str
    run: Callable[[Examination], Verdict]
    of_run: bool = False  # the check needs a configuration
    distribution: str = OURS
    python: str = ""  # of another Python: its path

    @property
    def again(self) -> str:
        """The command that makes this check alone."""
        python = f" --python {quoted(self.python)}" if self.python else ""
        return f"ttf doctor{python} --check {quoted(self.id)} -v"


def ok(detail: str, *evidence: str) -> Verdict:
    return Verdict(status="ok", detail=detail, evidence=evidence)


def skip(detail: str, *evidence: str) -> Verdict:
    return Verdict(status="skip", detail=detail, evidence=evidence)


def warn(detail: str, *evidence: str, remedy: str) -> Verdict:
    return Verdict(status="warn", detail=detail, evidence=evidence, remedy=remedy)


def fail(detail: str, *evidence: str, remedy: str, cause: Cause = "environment") -> Verdict:
    return Verdict(status="fail", detail=detail, evidence=evidence, remedy=remedy, cause=cause)
