"""Runs benches, each in its own process: if one dies, the others go on.

If a process dies during a peer's turn, the bench is repeated without this peer: our own figures do
not depend on a peer's crash.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from ttf.errors import ExitCode, TtfError
from ttf.rundir.typed_json import dataclass_from
from ttf.supervise import isolated_tasks
from ttf.tools.bench.catalogue import Bench
from ttf.tools.bench.peers import INSTALL, PEERS
from ttf.tools.bench.results import Finding, Line
from ttf.tools.doctor import task_failures


class MeasurerDied(TtfError):
    """The process that measures the machine itself died."""

    exit_code = ExitCode.UNSAFE


class Show(Protocol):
    """Called with the progress."""

    def __call__(self, bench: str, at: str, done: int, total: int) -> None: ...


@dataclass(frozen=True, kw_only=True)
class Outcome:
    bench: Bench
    lines: tuple[Line, ...] = ()
    findings: tuple[Finding, ...] = ()
    answer: Mapping[str, Any] = field(default_factory=dict)
    error: Mapping[str, Any] | None = None  # as `ttf.process.error_document` writes it

    @property
    def well(self) -> bool:
        """Whether it has its figures; peers may have died."""
        return bool(self.answer)


def outcome_of(
    bench: Bench,
    size: str,
    ceilings: Mapping[str, Any],
    show: Show,
) -> Outcome:
    """One bench with every installed peer. Call it in the main thread."""
    peers = [name for name in bench.peers if PEERS[name].installed]
    findings: list[Finding] = []
    while True:
        ended = _ended(bench, size, ceilings, peers, show)
        if ended.answer is not None and ended.death is None:
            lines = tuple(dataclass_from(Line, line) for line in ended.answer.get("lines", ()))
            return Outcome(
                bench=bench,
                lines=(*lines, *_not_measured(bench, lines, findings)),
                findings=tuple(findings),
                answer=ended.answer,
            )
        who = ended.stage if ended.stage in peers else None
        findings.append(
            Finding(
                name=bench.name,
                peer=who,
                what=task_failures.in_a_word(ended),
                evidence=tuple(task_failures.evidence(ended)),
            )
        )
        if who is None:
            return Outcome(bench=bench, findings=tuple(findings), error=ended.error)
        peers.remove(who)


def _ended(
    bench: Bench,
    size: str,
    ceilings: Mapping[str, Any],
    peers: list[str],
    show: Show,
) -> isolated_tasks.Ended:
    seen: dict[str, Any] = {"at": "starting", "done": 0, "total": 0}

    def heard(news: Mapping[str, Any]) -> None:
        seen.update(news)
        show(bench.name, str(seen["at"]), int(seen["done"]), int(seen["total"]))

    show(bench.name, "starting", 0, 0)
    return isolated_tasks.run(
        isolated_tasks.Task(
            work=bench.work,
            request={"size": size, "peers": list(peers), "ceilings": dict(ceilings)},
            deadline_s=bench.deadline_s,
            heard=heard,
        )
    )


def _not_measured(bench: Bench, lines: tuple[Line, ...], findings: list[Finding]) -> Iterator[Line]:
    """A line for every peer without figures, with the reason."""
    died = {finding.peer: finding.what for finding in findings}
    unit = lines[0].unit if lines else ""
    for name in bench.peers:
        if name in died:
            yield Line(name=bench.name, unit=unit, peer=name, note=f"it ended with {died[name]}")
        elif not PEERS[name].installed:
            yield Line(name=bench.name, unit=unit, peer=name, note=INSTALL)
