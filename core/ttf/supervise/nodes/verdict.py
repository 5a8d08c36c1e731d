"""What an attempt ended with on all nodes: its first cause, wherever that was."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace

from ttf.incidents.death import Death, Evidence
from ttf.process.error_document import ErrorDocument
from ttf.supervise.nodes.line import Lost
from ttf.supervise.nodes.said import Account, Report
from ttf.supervise.rank_ends import CAUSES, RankEnd, first_cause


@dataclass(frozen=True, kw_only=True)
class LostNode:
    node: int
    host: str
    how: Lost
    silent_s: float

    @property
    def text(self) -> str:
        name = f"{self.host} (node {self.node})"
        if self.how == "silent":
            return f"{name} did not answer for {self.silent_s:.0f} s"
        return f"{name} closed its connection, as when its supervisor or the machine ends"


@dataclass(frozen=True, kw_only=True)
class Verdict:
    account: Account | None = None  # Of the first cause; None: all has ended as it should.
    others: tuple[RankEnd, ...] = ()  # The other ranks, for the evidence.
    error: ErrorDocument | None = None  # The run is over on all nodes, with this.


def verdict(reports: Mapping[int, Report], lost: Mapping[int, LostNode]) -> Verdict:
    """`reports` with times on one clock. Of a node that is lost, nothing is known."""
    ends = [end for report in reports.values() for end in report.ends]
    cause = first_cause(ends)
    if cause is None and not lost:
        return Verdict(others=tuple(ends))
    account = None
    if cause is not None:
        account = next(r.account for r in reports.values() if cause in r.ends)
    if lost and (cause is None or cause.kind not in CAUSES):
        account = _of_the_lost(account, lost)
    others = tuple(end for end in ends if end is not cause)
    return Verdict(account=account, others=others)


def _of_the_lost(account: Account | None, lost: Mapping[int, LostNode]) -> Account:
    """Nobody here died by itself: what is known is who cannot be heard any more."""
    from ttf.incidents.classify import classify

    # Who closed the connection has ended; who is silent may only be out of reach.
    chosen = min(lost.values(), key=lambda node: (node.how == "silent", node.node))
    death = Death(process="trainer", pid=0, time=time.time(), rank=None, host=chosen.host)
    if account is not None:
        death = replace(account.death, killed_by_us="", rank=None, host=chosen.host)
    death = replace(death, others=chosen.how, reason=chosen.text)
    finding = classify(death)
    told = [Evidence(source=f"node {node.node}", text=node.text) for node in lost.values()]
    return Account(
        death=death,
        finding=replace(finding, evidence=(*finding.evidence, *told)),
        error=None if account is None else account.error,
    )


def on_this_clock(report: Report, heard_at: float) -> Report:
    """With times instead of how long ago."""
    ends = tuple(replace(end, at=heard_at - end.at) for end in report.ends)
    return replace(report, ends=ends)
