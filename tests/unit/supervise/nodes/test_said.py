"""What supervisors say to each other comes back as what it was, and nothing else is believed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from ttf.errors import DeviceMistrusted, RanksDisagree
from ttf.incidents.classify import classify
from ttf.incidents.death import Death, Remedy
from ttf.process.error_document import to_document
from ttf.process.signals import Signals
from ttf.rundir.flight_record import Flight
from ttf.rundir.rank_folders import inner_folder
from ttf.rundir.request import Change, History
from ttf.supervise.nodes.running_nodes import RunningNodes
from ttf.supervise.nodes.said import Account, Again, Go, NotUnderstood, Report, heard, said
from ttf.supervise.nodes.verdict import LostNode, Verdict, verdict
from ttf.supervise.rank_ends import RankEnd

FLIGHT = Flight(
    step=3,
    micro_batch=1,
    phase="forward",
    monotonic_s=1.0,
    time=2.0,
    saving_since_s=None,
    torn=False,
)
DEATH = Death(process="trainer", pid=7, time=5.0, signal=11, rank=2, host="host-b", flight=FLIGHT)
ACCOUNT = Account(death=DEATH, finding=classify(DEATH))
DIED = RankEnd(rank=2, host="host-b", kind="died", step=3, phase="forward", at=0.2, name="segfault")
LOST = RankEnd(rank=0, host="host-a", kind="lost", step=3, at=0.1, name="peer-lost")


def through_a_line(kind: str, content: Any) -> Any:
    again, found = heard(json.loads(json.dumps(said(kind, content))))
    assert again == kind
    return found


def test_a_report_with_an_account_comes_back_whole() -> None:
    report = Report(attempt=3, ends=(DIED, LOST), late=True, account=ACCOUNT)
    assert through_a_line("report", report) == report


def test_what_an_account_has_too_much_of_is_left_out() -> None:
    long = replace(DEATH, stderr="x" * 10**6, faulthandler="y" * 10**6, raw_stderr=b"z" * 10**6)
    report = Report(attempt=1, ends=(DIED,), account=replace(ACCOUNT, death=long))
    assert len(json.dumps(said("report", report))) < 200_000
    assert through_a_line("report", report).account.death.raw_stderr == b""


def test_orders_come_back_whole() -> None:
    go = Go(
        attempt=1,
        first=2,
        store="10.0.0.1:5",
        hosts=("a", "b", "b"),
        overlay={"miner.isolation": Change(value="process", origin="remedy of incident 001 (x)")},
        history=History(restarts=2, incidents=("001",)),
        documents={"run.toml": "[train]\n"},
    )
    assert through_a_line("go", go) == go
    again = Again(because="it died", account=ACCOUNT, others=(LOST,))
    assert through_a_line("again", again) == again
    assert through_a_line("over", None) is None
    document = dict(to_document(RanksDisagree("no")))
    assert through_a_line("over", document) == document


@pytest.mark.parametrize("change", [{"fields": 1}, {"fields": {"details": 1}}, {"exit_code": 999}])
def test_an_error_that_cannot_be_raised_here_is_refused(change: dict[str, Any]) -> None:
    document = {**to_document(RanksDisagree("no")), **change}
    report = Report(attempt=1, ends=(DIED,), account=replace(ACCOUNT, error=document))
    with pytest.raises(NotUnderstood):
        through_a_line("report", report)
    with pytest.raises(NotUnderstood):
        through_a_line("report", replace(report, account=replace(ACCOUNT, error={"class": "x"})))


@pytest.mark.parametrize(
    "message",
    [
        {},
        {"hello": {}},
        {"hello": 1},
        {"go": {"attempt": "1", "first": 0, "store": "", "hosts": []}},
        {"report": {"attempt": 1, "ends": [{"rank": 0, "kind": "eaten", "host": ""}]}},
        {"end": "yes"},
        {"stopping": None},
        {"unheard": 1},
        {"end": True, "over": None},
    ],
)
def test_anything_else_is_refused(message: dict[str, Any]) -> None:
    with pytest.raises(NotUnderstood):
        heard(message)


class Ranks:
    """The trainers of this node, as far as a death elsewhere asks them."""

    flat: ClassVar = {"miner.isolation": "none", "device.name": "cpu", "device.threads": 4}


class Talk:
    def __init__(self, found: Verdict) -> None:
        self.verdict = found


@pytest.mark.parametrize(
    ("name", "error", "wanted"),
    [
        ("segfault", None, [{"miner.isolation": "process"}, {"device.threads": 1}]),
        ("non-finite", DeviceMistrusted("", remedy={"data.pairs": "x"}), [{"device.name": "cpu"}]),
        ("killed", None, []),
        ("no class of ours", None, []),
    ],
)
def test_a_remedy_is_of_the_node_that_applies_it_whatever_the_other_one_says(
    tmp_path: Path, name: str, error: DeviceMistrusted | None, wanted: list[dict[str, Any]]
) -> None:
    evil = Remedy(text="", set={"data.pairs": "https://example.org/x", "train.init": "/home/a/b"})
    finding = replace(classify(DEATH), name=name, remedies=(evil,), at_once=True, ends_with=None)
    document = None if error is None else dict(to_document(error))
    report = Report(
        attempt=1, ends=(DIED,), account=Account(death=DEATH, finding=finding, error=document)
    )
    found = verdict({1: through_a_line("report", report)}, {})
    with Signals() as signals:
        running = RunningNodes(Ranks(), Talk(found), inner_folder(tmp_path), signals, 1)  # type: ignore[arg-type]
        _, event = running.death(1, print)
    assert [dict(remedy.set) for remedy in event.remedies] == wanted


# --- the verdict -----------------------------------------------------------------------------------


def test_the_cause_is_found_on_whichever_node_it_was() -> None:
    here = Report(attempt=1, ends=(LOST,), account=replace(ACCOUNT, death=replace(DEATH, rank=0)))
    there = Report(attempt=1, ends=(DIED,), account=ACCOUNT)
    found = verdict({0: here, 1: there}, {})
    assert found.account == ACCOUNT and found.others == (LOST,)


@pytest.mark.parametrize(("how", "name"), [("silent", "network-partition"), ("gone", "peer-lost")])
def test_without_a_death_the_node_that_cannot_be_heard_is_named(how: Any, name: str) -> None:
    lost = {1: LostNode(node=1, host="host-b", how=how, silent_s=10.0)}
    here = Report(attempt=1, ends=(LOST,), account=replace(ACCOUNT, death=replace(DEATH, rank=0)))
    account = verdict({0: here}, lost).account
    assert account is not None and account.finding.name == name
    assert "host-b (node 1)" in account.finding.explanation


def test_a_death_here_is_the_cause_though_another_node_is_lost_too() -> None:
    lost = {1: LostNode(node=1, host="host-b", how="gone", silent_s=10.0)}
    account = verdict({0: Report(attempt=1, ends=(DIED,), account=ACCOUNT)}, lost).account
    assert account == ACCOUNT


def test_all_that_finished_need_no_account() -> None:
    done = Report(attempt=1, ends=(replace(DIED, kind="finished"),))
    assert verdict({0: done, 1: done}, {}).account is None
