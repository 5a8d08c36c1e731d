"""The checks of `ttf doctor --peers`, and their table of nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from ttf.errors import StorageError, UnknownName
from ttf.hookspecs import Verdict
from ttf.text.tables import table
from ttf.tools.doctor.check import Check, fail, ok, skip
from ttf.tools.doctor.context import Examination
from ttf.tools.doctor.peers import compare
from ttf.tools.doctor.peers.found import Found, Meeting, NotMet
from ttf.tools.doctor.peers.meet import Rendezvous, keep_network, meet


class Peers:
    """One meeting, held by the first check that needs it."""

    def __init__(self, place: Rendezvous) -> None:
        self._place = place
        self._meeting: Meeting | None = None

    def checks(self, ids: Sequence[str]) -> list[Check]:
        """Those with these ids, or all. Raises UnknownName."""
        every = [
            Check(
                "peers-meeting", "do all nodes of the run find one another?", self._look_at_meeting
            ),
            *(Check(name, title, partial(self._judged, judge)) for name, title, judge in _JUDGES),
        ]
        known = {check.id for check in every}
        for name in ids:
            if name not in known:
                raise UnknownName("check of several nodes", name, known)
        return [check for check in every if not ids or check.id in ids]

    def _met(self, exam: Examination) -> Meeting:
        if self._meeting is None:
            self._meeting = meet(exam, self._place)
        return self._meeting

    def _look_at_meeting(self, exam: Examination) -> Verdict:
        found = self._met(exam)
        if isinstance(found, NotMet):
            return fail(found.text, *found.evidence, remedy=found.remedy)
        names = ", ".join(node.host for node in found.nodes)
        note = _kept(found)
        return ok(f"{len(found.nodes)} nodes met at {found.rendezvous}: {names}", *note)

    def _judged(self, judge: Callable[[Found], Verdict], exam: Examination) -> Verdict:
        found = self._met(exam)
        if isinstance(found, NotMet):
            return skip("the nodes did not meet (see the check peers-meeting)")
        return judge(found)

    def table(self) -> str:
        """The nodes side by side; '' if they did not meet."""
        if not isinstance(self._meeting, Found):
            return ""
        header = ("node", "host", "ttf", "torch", "processor", "threads", "interface", "clock")
        return table(list(_rows(self._meeting)), header)

    def to_json(self) -> list[dict[str, Any]]:
        """The same for scripts."""
        if not isinstance(self._meeting, Found):
            return []
        return [
            {
                "node": number,
                "host": node.host,
                "ttf": node.ttf,
                "torch": node.torch,
                "capability": node.capability,
                "threads": node.threads,
                "interface": node.interface,
                "address": node.address,
                "clock_offset_s": self._meeting.clocks[number].offset_s,
            }
            for number, node in enumerate(self._meeting.nodes)
        ]


_JUDGES = (
    ("peers-versions", "do all nodes have the same versions?", compare.judge_versions),
    ("peers-numbers", "do all nodes compute the same bits?", compare.judge_numbers),
    ("peers-data", "do all nodes have the same settings and files?", compare.judge_data),
    ("peers-clock", "do the clocks of all nodes agree?", compare.judge_clocks),
    ("peers-interface", "which network interface would each node use?", compare.judge_interfaces),
    (
        "peers-links",
        "can each node open a connection to each other one, and how fast is it?",
        compare.judge_links,
    ),
)


def _rows(found: Found) -> Iterator[tuple[str, ...]]:
    for number, node in enumerate(found.nodes):
        yield (
            str(number),
            node.host,
            node.ttf,
            node.torch,
            node.capability or node.architecture,
            str(node.threads),
            f"{node.interface} {node.address}",
            f"{found.clocks[number].offset_s:+.3f} s",
        )


def _kept(found: Found) -> list[str]:
    try:
        keep_network(found)
    except StorageError as error:
        return [f"the measured network could not be kept: {error}"]
    return []
