"""Node 0 of a study on several hosts: it gives blocks out, does some itself, and owns the journal."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from ttf.text.terminal import say
from ttf.tools.ab.hosts.giving import Giving
from ttf.tools.ab.hosts.runner import CellRunner
from ttf.tools.ab.hosts.wire import cells_message, finished_from
from ttf.tools.ab.sample import Sample
from ttf.tools.ab.setup import Cell
from ttf.tools.ab.study import ABLimits, ABStudy, Reason
from ttf.tools.studies.carry_out import Records, Watcher
from ttf.tools.tickets.desk import Came, Desk, Event, Left, Node, Said
from ttf.tools.tickets.names import free_name
from ttf.tools.tickets.own import Own

_LOOK_EVERY_S: Final = 0.05
_MOST_ATTEMPTS: Final = 1 << 31
_HERE: Final = "here"  # who holds a block: this, or a Node


def carry_on(
    study: ABStudy,
    limits: ABLimits,
    watcher: Watcher[Cell, Sample],
    settled: Callable[[ABStudy], bool],
    desk: Desk,
    own: Own,
) -> Reason:
    """As `ttf.tools.ab.study.carry_on`, with the hosts that come to the desk."""
    giving = Giving(study, limits, settled, Records(study, watcher), limits.parallel)
    runner = CellRunner(
        setup=study.setup,
        folder=study.folder,
        parallel=limits.parallel,
        keep_runs=limits.keep_runs,
        allow_remote=study.allow_remote,
    )
    sitting = _Sitting(giving, runner, desk, own)
    desk.greet = sitting.greet
    over: dict[str, Any] = {"over": "stopped", "text": "Node 0 stopped the study."}
    try:
        sitting.run()
        over = {"over": giving.reason, "text": ""}
        return giving.reason
    except Exception as error:
        over = {"over": "error", "text": f"Node 0 ended the study: {error}"}
        raise
    finally:
        runner.end()
        desk.close(over)


@dataclass
class _Sitting:
    giving: Giving
    runner: CellRunner
    desk: Desk
    own: Own
    wanting: dict[Node, int] = field(default_factory=dict)  # how many blocks at a time

    def __post_init__(self) -> None:
        self.study, self.blocks = self.giving.study, self.giving.blocks
        self.here = self.own.facts["host"]

    def run(self) -> None:
        at_once = max(1, self.runner.parallel // len(self.study.setup.arms))
        while True:
            if self.runner.idle:
                for ticket in self.giving.tickets(_HERE, self.here, at_once, ("", self.here)):
                    self.runner.add(ticket.cells)
            for node, most in list(self.wanting.items()):
                self._give(node, most)
            if self.giving.finished:
                return
            for event in self.desk.look(_LOOK_EVERY_S):
                self._happened(event)
            for finished in self.runner.look(begin=True):
                attempt = self.blocks.held[finished.run.block].attempt
                run = replace(finished.run, host=self.here, attempt=attempt)
                self.giving.record(replace(finished, run=run))

    def _give(self, node: Node, most: int) -> None:
        tickets = self.giving.tickets(node, node.name, most)
        if tickets:
            del self.wanting[node]
        for ticket in tickets:
            cells = cells_message(ticket.cells)
            message = {"ticket": ticket.block, "attempt": ticket.attempt, "cells": cells}
            self.desk.tell(node, message)

    # --- what comes back -------------------------------------------------------------------------

    def greet(self, hello: Mapping[str, Any]) -> dict[str, Any]:
        """Raises ConfigError and BadData for a host with something else."""
        host, stated = self.own.compare(hello)
        if stated:
            say(
                f"{host} has another {stated}. Quality and speed may differ a little from block to block."
            )
        taken = [self.here, *(node.name for node in self.desk.nodes)]
        name = free_name(host, hello.get("name", ""), taken)
        return {"name": name, "study": self.study.folder.absolute().name}

    def _happened(self, event: Event) -> None:
        if isinstance(event, Came):
            self._came(event.node, event.hello)
        elif isinstance(event, Left):
            self.wanting.pop(event.node, None)
            blocks = self.blocks.lost(event.node)
            again = f"; block {_listed(blocks)} is given out again" if blocks else ""
            say(f"{event.node.name} is lost ({event.why}){again}.")
        elif isinstance(event, Said):
            self._said(event.node, event.message)

    def _came(self, node: Node, hello: Mapping[str, Any]) -> None:
        say(f"{node.name} joined.")
        kept: list[int] = []
        dropped: list[int] = []
        holds = hello.get("holds")
        for block, attempt in _pairs(holds if isinstance(holds, list) else []):
            known = self.blocks.adopted(block, attempt, node, node.name, self.study.runs)
            (kept if known else dropped).append(block)
        done = [[s.block, s.arm] for s in self.study.runs if s.counted and s.block in kept]
        self.desk.tell(node, {"go_on": kept, "drop": dropped, "done": done})

    def _said(self, node: Node, message: Mapping[str, Any]) -> None:
        if "want" in message:
            most = message["want"]
            self.wanting[node] = min(most, 64) if isinstance(most, int) and most > 0 else 1
        if "result" in message:
            self._result(node, message)

    def _result(self, node: Node, message: Mapping[str, Any]) -> None:
        try:
            number = int(message["number"])
            sample = message["result"]["sample"]
            key = int(sample["block"]), str(sample["arm"])
            attempt, outstanding = self.blocks.of_holder(node).get(key[0], (0, set[str]()))
            finished = finished_from(
                message["result"], self.study.setup, host=node.name, attempt=attempt
            )
        except (LookupError, TypeError, ValueError) as error:
            self.desk.dismiss(node, f"it sent a result that cannot be used: {error}")
            return
        # Not outstanding: a repetition of what is here already, or of a block that it lost.
        if key[1] in outstanding:
            self.giving.record(finished)
        self.desk.tell(node, {"kept": number})


def _pairs(found: list[Any]) -> list[tuple[int, int]]:
    return [
        (pair[0], pair[1])
        for pair in found[:64]
        if isinstance(pair, list) and len(pair) == 2 and all(map(_is_count, pair))
    ]


def _is_count(number: object) -> bool:
    return type(number) is int and 0 <= number < _MOST_ATTEMPTS


def _listed(blocks: list[int]) -> str:
    return ", ".join(map(str, blocks))
