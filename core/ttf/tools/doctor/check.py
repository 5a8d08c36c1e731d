"""What a check is: a question about machine, environment or run, and the verdict on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, Protocol, Self, get_args

Status = Literal["ok", "warn", "fail", "skip"]
Cause = Literal["environment", "data", "configuration"]
DOCS: Final = "docs/doctor.md"


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What a check found: one line, what it rests on, and what to do."""

    status: Status
    detail: str
    """One line; names what was looked at."""
    evidence: tuple[str, ...] = ()
    """Facts and where they were found, a line each."""
    remedy: str = ""
    cause: Cause = "environment"
    """Whose failure it is: decides the exit code (environment 6, data 3, configuration 2)."""

    def __post_init__(self) -> None:
        if self.status not in get_args(Status):
            raise ValueError(f"a verdict is one of {get_args(Status)}, not {self.status!r}")
        if self.cause not in get_args(Cause):
            raise ValueError(f"a cause is one of {get_args(Cause)}, not {self.cause!r}")

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        texts = {key: str(values[key]) for key in ("detail", "remedy")}
        evidence = tuple(map(str, values["evidence"]))
        return cls(status=values["status"], cause=values["cause"], evidence=evidence, **texts)


@dataclass(frozen=True, kw_only=True)
class CheckContext:
    """What a check of a plugin is told."""

    run_toml: Path | None = None
    """The configuration that was named, if one was."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Its values by dotted key, {"miner.name": "faiss", ...}; empty without one."""


class Check(Protocol):
    """A check that a plugin brings: an entry point `check.<name>` whose hook `ttf_doctor_check`
    returns it. It is loaded and run in a process of its own."""

    id: str
    """The name of its entry point."""
    title: str
    """The question it answers, in a line."""

    def run(self, context: CheckContext) -> Verdict:
        """May take some seconds; what it raises, and how it dies, is told as a finding."""
        ...


def ok(detail: str, *evidence: str) -> Verdict:
    return Verdict(status="ok", detail=detail, evidence=evidence)


def skip(detail: str, *evidence: str) -> Verdict:
    return Verdict(status="skip", detail=detail, evidence=evidence)


def warn(detail: str, *evidence: str, remedy: str) -> Verdict:
    return Verdict(status="warn", detail=detail, evidence=evidence, remedy=remedy)


def fail(detail: str, *evidence: str, remedy: str, cause: Cause = "environment") -> Verdict:
    return Verdict(status="fail", detail=detail, evidence=evidence, remedy=remedy, cause=cause)
