"""Which host does which block: all arms of a block on one, whoever is lost and comes back."""

from __future__ import annotations

from dataclasses import replace

from ttf.tools.ab.hosts.blocks import SPOILED, Blocks, Ticket, parts_of_others
from ttf.tools.ab.sample import Sample
from ttf.tools.ab.setup import Cell, schedule

ARMS = ("a", "b")
CELLS = schedule(ARMS, 3, 0)
HERE = ("", "one")


def sample(cell: Cell, host: str, attempt: int) -> Sample:
    return Sample(
        arm=cell.arm,
        block=cell.block,
        position=cell.position,
        seed=cell.seed,
        outcome="clean",
        host=host,
        attempt=attempt,
    )


class Study:
    """Samples and blocks as node 0 holds them."""

    def __init__(self, samples: tuple[Sample, ...] = ()) -> None:
        self.samples = list(samples)
        self.blocks = Blocks.of(CELLS, self.samples)

    def give(self, host: str) -> Ticket | None:
        ticket = self.blocks.next_for(host, host, self.samples, HERE if host == "one" else ())
        if ticket is not None:
            for gone in ticket.spoiled:
                at = self.samples.index(gone)
                self.samples[at] = replace(gone, outcome="void", reason=SPOILED)
        return ticket

    def done(self, host: str, ticket: Ticket, number: int) -> None:
        for cell in ticket.cells[:number]:
            self.samples.append(sample(cell, host, ticket.attempt))
            self.blocks.ended(cell.block, cell.arm, self.samples)


def given(ticket: Ticket | None) -> tuple[int, int, int, int]:
    assert ticket is not None
    return ticket.block, ticket.attempt, len(ticket.cells), len(ticket.spoiled)


def test_each_host_gets_whole_blocks_and_nothing_is_left() -> None:
    study = Study()
    one, two = study.give("one"), study.give("two")
    assert given(one) == (1, 1, 2, 0) and given(two) == (2, 1, 2, 0)
    assert one is not None and two is not None
    study.done("two", two, 2)
    third = study.give("two")
    assert given(third) == (3, 1, 2, 0)
    assert study.give("one") is None, "it has a block already, and no other is free"
    assert third is not None
    study.done("one", one, 2)
    study.done("two", third, 2)
    assert study.give("one") is None and not study.blocks.held
    assert {s.host for s in study.samples if s.block == 1} == {"one"}


def test_the_block_of_a_lost_host_is_done_again_whole_and_last() -> None:
    study = Study()
    study.give("one")
    two = study.give("two")
    assert two is not None
    study.done("two", two, 1)
    assert study.blocks.lost("two") == [2]
    third = study.give("three")
    assert given(third) == (3, 1, 2, 0), "perhaps the lost one comes back"
    again = study.give("four")
    assert given(again) == (2, 2, 2, 1)
    assert [s.outcome for s in study.samples] == ["void"]
    assert not study.blocks.adopted(2, 1, "two", "two", study.samples), "too late"


def test_a_host_that_comes_back_in_time_goes_on_with_its_block() -> None:
    study = Study()
    study.give("one")
    two = study.give("two")
    assert two is not None
    study.done("two", two, 1)
    study.blocks.lost("two")
    assert study.blocks.adopted(2, 1, "two, new", "two", study.samples)
    assert study.blocks.of_holder("two, new") == {2: (1, {two.cells[1].arm})}


def test_a_new_node_0_knows_the_block_of_a_host_from_the_journal() -> None:
    first = Study()
    ticket = first.give("two")
    assert ticket is not None
    first.done("two", ticket, 1)
    again = Study(tuple(first.samples))
    assert not again.blocks.adopted(1, 1, "x", "another", again.samples)
    assert again.blocks.adopted(1, 1, "x", "two", again.samples)
    assert given(again.give("one")) == (2, 1, 2, 0)


def test_node_0_goes_on_with_the_part_that_it_did_itself() -> None:
    first = Study()
    ticket = first.give("one")
    assert ticket is not None
    first.done("one", ticket, 1)
    again = Study(tuple(first.samples))
    assert given(again.give("one")) == (1, 1, 1, 0)
    other = Study(tuple(first.samples))
    assert given(other.give("two")) == (2, 1, 2, 0), "the part of another host waits"


def test_a_repeat_that_was_void_is_done_again_by_the_same_host() -> None:
    study = Study()
    ticket = study.give("two")
    assert ticket is not None
    first, second = ticket.cells
    study.samples.append(replace(sample(first, "two", 1), outcome="void", reason="killed"))
    study.blocks.ended(1, first.arm, study.samples)
    study.samples.append(sample(second, "two", 1))
    study.blocks.ended(1, second.arm, study.samples)
    again = study.give("two")
    assert again is not None and (again.block, again.attempt) == (1, 1)
    assert again.cells == (first,)


def test_parts_of_other_hosts_are_found() -> None:
    here, there = sample(CELLS[0], "one", 1), sample(CELLS[2], "two", 1)
    whole = [sample(cell, "two", 1) for cell in CELLS[4:6]]
    assert parts_of_others(CELLS, [here, there, *whole], HERE) == [there]


def test_a_host_that_is_idle_gets_what_is_missing_of_its_block() -> None:
    """It came back, and one repeat that it had told was void."""
    study = Study()
    ticket = study.give("two")
    assert ticket is not None
    first, second = ticket.cells
    study.samples.append(replace(sample(first, "two", 1), outcome="void", reason="killed"))
    study.blocks.ended(1, first.arm, study.samples)
    study.blocks.lost("two")
    assert study.blocks.adopted(1, 1, "two", "two", study.samples)
    study.samples.append(sample(second, "two", 1))
    study.blocks.ended(1, second.arm, study.samples)
    study.blocks.idle("two")
    again = study.give("two")
    assert again is not None and (again.block, again.cells) == (1, (first,))
