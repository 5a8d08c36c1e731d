"""`ttf ab` on several hosts: node 0 and the others, or an executor."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from ttf.commands._signals import handled
from ttf.errors import PeerLost, Stopped
from ttf.text.terminal import emit_json, say

if TYPE_CHECKING:
    from ttf.jobs import Executor
    from ttf.tools.ab.setup import ABSetup
    from ttf.tools.ab.study import ABLimits, ABStudy, Reason
    from ttf.tools.tickets.desk import Desk
    from ttf.tools.tickets.place import Place


def desk_at(place: Place) -> Desk:
    """Listens at the address of the rendezvous. Raises ConfigError."""
    from ttf.supervise.nodes.addresses import listening
    from ttf.tools.tickets.desk import Desk

    return Desk(listening(place.host, place.port), place.nodes - 1, say)


@dataclass(frozen=True)
class With:
    """A study that is not done on this host alone: with the nodes at a desk, or by an executor."""

    by: Desk | Executor

    def carry_on(
        self, study: ABStudy, limits: ABLimits, settled: Callable[[ABStudy], bool]
    ) -> Reason:
        from ttf.tools.ab.hosts import alike, by_executor, node0
        from ttf.tools.ab.progress import RepeatLines
        from ttf.tools.ab.study import noted_load
        from ttf.tools.tickets.desk import Desk

        noted_load(study, limits)
        own, lines = alike.own(study.setup), RepeatLines(study, 2)
        if isinstance(self.by, Desk):
            say("Other hosts may join at any time; each block runs on one host.")
            return node0.carry_on(study, limits, lines, settled, self.by, own)
        return by_executor.carry_on(study, limits, lines, settled, self.by, own)


def work_for_node_0(
    setup: ABSetup, limits: ABLimits, place: Place, out: Path | None, as_json: bool
) -> None:
    """Of another node, until the study is over."""
    from ttf.tools.ab.hosts import alike
    from ttf.tools.ab.hosts.other import BlockHand
    from ttf.tools.tickets.follower import follow

    def stop(signum: int, frame: Any) -> NoReturn:
        for each in (signal.SIGINT, signal.SIGTERM):
            signal.signal(each, signal.SIG_IGN)
        raise Stopped(signum, "Stopped; node 0 gives the block of this host to another one.")

    with handled((signal.SIGINT, signal.SIGTERM), stop):
        hand = BlockHand(setup, limits, alike.own(setup), out)
        with contextlib.closing(hand):
            over = follow(place, hand)
    told = {"ended": over.get("over"), "host": hand.name, "repeats_here": hand.repeats}
    if over.get("over") in ("stopped", "error"):
        error = PeerLost(
            str(over.get("text")),
            hint="Start it again on node 0, and then this command again here.",
        )
        error.details = told
        raise error
    if as_json:
        emit_json(told)
        return
    say(f"The study is over. {hand.repeats} repeats ran here; the results are on node 0.")
