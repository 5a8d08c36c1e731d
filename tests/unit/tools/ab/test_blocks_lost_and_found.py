"""Any order of losses, returns and restarts of node 0: blocks end whole, each on one host."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from ttf.tools.ab.hosts.blocks import SPOILED, Blocks, Ticket
from ttf.tools.ab.sample import Sample
from ttf.tools.ab.setup import Cell, schedule

ARMS = ("a", "b", "c")
HERE = ("", "one")
HOSTS = ("one", "two", "three")


class World:
    """Node 0 with its journal, and hosts that know what they hold."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.cells = schedule(ARMS, 5, seed)
        self.samples: list[Sample] = []
        self.blocks = Blocks.of(self.cells, self.samples)
        self.work: dict[str, tuple[Ticket, list[Cell]]] = {}  # by host: what it still does
        self.linked = set(HOSTS)
        self.ran = 0

    def step(self) -> None:
        host = self.random.choice(HOSTS)
        act = self.random.choice((self.run, self.run, self.run, self.unlink, self.link, self.die))
        act(host)
        if self.random.random() < 0.03:
            self.restart()

    def run(self, host: str) -> None:
        if host not in self.linked:
            return
        if host not in self.work:
            own = HERE if host == "one" else ()
            self.blocks.idle(host)
            ticket = self.blocks.next_for(host, host, self.samples, own)
            if ticket is None:
                return
            gone = set(map(id, ticket.spoiled))
            self.samples = [
                replace(s, outcome="void", reason=SPOILED) if id(s) in gone else s
                for s in self.samples
            ]
            self.work[host] = ticket, list(ticket.cells)
        ticket, left = self.work[host]
        cell = left.pop(0)
        if not left:
            del self.work[host]
        void = self.random.random() < 0.1
        self.samples.append(
            Sample(
                arm=cell.arm,
                block=cell.block,
                position=cell.position,
                seed=cell.seed,
                outcome="void" if void else "clean",
                host=host,
                attempt=ticket.attempt,
            )
        )
        self.ran += 1
        self.blocks.ended(cell.block, cell.arm, self.samples)

    def unlink(self, host: str) -> None:
        if host != "one" and host in self.linked:
            self.linked.discard(host)
            self.blocks.lost(host)

    def link(self, host: str) -> None:
        if host in self.linked:
            return
        self.linked.add(host)
        held = self.work.get(host)
        if held is not None:
            ticket, _ = held
            known = self.blocks.adopted(ticket.block, ticket.attempt, host, host, self.samples)
            if not known:
                del self.work[host]

    def die(self, host: str) -> None:
        if host != "one":
            self.unlink(host)
            self.work.pop(host, None)
            self.link(host)

    def restart(self) -> None:
        self.blocks = Blocks.of(self.cells, self.samples)
        self.work.pop("one", None)
        for host in HOSTS[1:]:
            self.linked.discard(host)
            if self.random.random() < 0.7:
                self.link(host)

    def whole(self) -> bool:
        return sum(s.counted for s in self.samples) == len(self.cells) and not self.blocks.held


@pytest.mark.parametrize("seed", range(200))
def test_blocks_end_whole_and_each_on_one_host(seed: int) -> None:
    world = World(seed)
    steps = 0
    while not world.whole():
        world.step()
        steps += 1
        assert steps < 5000, "it does not come to an end"
    counted = [s for s in world.samples if s.counted]
    assert {(s.block, s.arm) for s in counted} == {(c.block, c.arm) for c in world.cells}
    for block in range(1, 6):
        assert len({(s.host, s.attempt) for s in counted if s.block == block}) == 1
