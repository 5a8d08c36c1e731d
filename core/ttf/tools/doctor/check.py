"""The four verdicts of a check, as short as they are written in the checks."""

from __future__ import annotations

from typing import Final

from ttf.hookspecs import Cause, Verdict

DOCS: Final = "docs/doctor.md"


def ok(detail: str, *evidence: str) -> Verdict:
    return Verdict(status="ok", detail=detail, evidence=evidence)


def skip(detail: str, *evidence: str) -> Verdict:
    return Verdict(status="skip", detail=detail, evidence=evidence)


def warn(detail: str, *evidence: str, remedy: str) -> Verdict:
    return Verdict(status="warn", detail=detail, evidence=evidence, remedy=remedy)


def fail(detail: str, *evidence: str, remedy: str, cause: Cause = "environment") -> Verdict:
    return Verdict(status="fail", detail=detail, evidence=evidence, remedy=remedy, cause=cause)
