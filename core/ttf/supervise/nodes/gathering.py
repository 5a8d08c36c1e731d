"""When an attempt begins and when it is over: a pure function from (state, event) to (state, actions).

What node 0 decides about the nodes of a run; no clock, no sockets. What is done after an attempt is
decided by `supervise/decide.py`, from its first cause.

```
             all nodes ready: Go                     one reports a death, or is lost: EndAttempt
 gathering ----------------------> running ------------------------------------------+
    ^   | too long: Missing           | all have reported or are lost: Conclude      |
    |   v                             v                                              v
    |  over                       gathering <------------------------------------- running
```

What the caller owes this function: Ready of node 0 itself as of any other. After Conclude, a node is
ready again only after another Ready. Nothing is done after Missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, assert_never

from ttf.supervise.nodes.line import Lost


@dataclass(frozen=True, kw_only=True)
class Member:
    """A node that has come. Node 0 is one of them."""

    host: str
    ready: bool = False
    ranks: int = 0
    has_run: bool = False
    newest: int = -1
    reported: bool = False
    well: bool = True  # As reported.
    lost: Lost = ""  # While its trainers ran.


@dataclass(frozen=True, kw_only=True)
class Gathering:
    nodes: int
    since: float  # When the wait for the others began.
    patience_s: float  # How long it may be.
    later_s: float  # How long a wait after the first attempt may be.
    stage: Literal["gathering", "running", "over"] = "gathering"
    attempt: int = 0
    members: Mapping[int, Member] = field(default_factory=dict)
    # Who came back while the attempt that it lost is not over yet.
    returned: Mapping[int, Member] = field(default_factory=dict)
    fetching: bool = False  # Node 0 waits for the documents of another.

    @property
    def missing(self) -> list[int]:
        return [n for n in range(self.nodes) if n not in self.members or not self.members[n].ready]


# --- events ------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Came:
    now: float
    node: int
    host: str


@dataclass(frozen=True, kw_only=True)
class BecameReady:
    now: float
    node: int
    ranks: int
    has_run: bool
    newest: int = -1


@dataclass(frozen=True, kw_only=True)
class WasLost:
    now: float
    node: int
    how: Lost


@dataclass(frozen=True, kw_only=True)
class Reported:
    now: float
    node: int
    well: bool
    late: bool = False


@dataclass(frozen=True, kw_only=True)
class Waited:
    now: float


Event = Came | BecameReady | WasLost | Reported | Waited


# --- actions -----------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Fetch:
    """Ask this node for the documents of the run: node 0 has none."""

    node: int


@dataclass(frozen=True, kw_only=True)
class StartAttempt:
    """All are ready. `source`: the node with the newest run; None: it is a new one."""

    attempt: int
    source: int | None


@dataclass(frozen=True, kw_only=True)
class EndAttempt:
    """Trainers that have not ended by now will not finish: end them on these nodes. `late`: others
    waited for one of them in vain."""

    nodes: tuple[int, ...]
    late: bool


@dataclass(frozen=True, kw_only=True)
class Conclude:
    """Nothing more will be heard of this attempt."""


@dataclass(frozen=True, kw_only=True)
class Missing:
    """These did not come in time."""

    nodes: tuple[int, ...]


Action = Fetch | StartAttempt | EndAttempt | Conclude | Missing
Decision = tuple[Gathering, tuple[Action, ...]]


def gather(state: Gathering, event: Event) -> Decision:
    if state.stage == "over":
        return state, ()
    match event:
        case Came():
            return _came(state, event), ()
        case BecameReady():
            return _start_if_all(_ready(state, event))
        case WasLost():
            return _lost(state, event)
        case Reported():
            return _reported(state, event)
        case Waited():
            return _waited(state, event)
        case _:
            assert_never(event)


def _came(state: Gathering, event: Came) -> Gathering:
    member = Member(host=event.host)
    if state.stage == "running":
        return replace(state, returned={**state.returned, event.node: member})
    return replace(state, members={**state.members, event.node: member})


def _ready(state: Gathering, event: BecameReady) -> Gathering:
    where = state.returned if state.stage == "running" else state.members
    if event.node not in where:
        return state
    member = replace(
        where[event.node],
        ready=True,
        ranks=event.ranks,
        has_run=event.has_run,
        newest=event.newest,
    )
    if state.stage == "running":
        return replace(state, returned={**where, event.node: member})
    fetched = event.node == 0 and event.has_run
    return replace(
        state,
        members={**where, event.node: member},
        fetching=state.fetching and not fetched,
    )


def _start_if_all(state: Gathering) -> Decision:
    if state.stage != "gathering" or state.missing or state.fetching:
        return state, ()
    having = [n for n, member in state.members.items() if member.has_run]
    source = max(having, key=lambda n: (state.members[n].newest, -n), default=None)
    if source is not None and not state.members[0].has_run:
        return replace(state, fetching=True), (Fetch(node=source),)
    attempt = state.attempt + 1
    members = {n: replace(m, reported=False, well=True) for n, m in state.members.items()}
    state = replace(state, stage="running", attempt=attempt, members=members, returned={})
    return state, (StartAttempt(attempt=attempt, source=source),)


def _lost(state: Gathering, event: WasLost) -> Decision:
    if event.node in state.returned:
        rest = {n: member for n, member in state.returned.items() if n != event.node}
        return replace(state, returned=rest), ()
    member = state.members.get(event.node)
    if member is None or member.lost:
        return state, ()
    if state.stage == "gathering":
        rest = {n: member for n, member in state.members.items() if n != event.node}
        return replace(state, members=rest, fetching=False), ()
    # That a node cannot be heard says nothing about the trainers of the others: nobody is late.
    state = _with(state, event.node, replace(member, lost=event.how))
    return _after_an_end(state, event.now, late=False)


def _reported(state: Gathering, event: Reported) -> Decision:
    member = state.members.get(event.node)
    if state.stage != "running" or member is None or member.lost or member.reported:
        return state, ()
    state = _with(state, event.node, replace(member, reported=True, well=event.well))
    return _after_an_end(state, event.now, event.late)


def _with(state: Gathering, node: int, member: Member) -> Gathering:
    return replace(state, members={**state.members, node: member})


def _after_an_end(state: Gathering, now: float, late: bool) -> Decision:
    going_on = tuple(n for n, m in state.members.items() if not (m.reported or m.lost))
    if not going_on:
        return _concluded(state, now), (Conclude(),)
    # Who has finished waits for the others, who are about to.
    if all(m.well and not m.lost for m in state.members.values()):
        return state, ()
    return state, (EndAttempt(nodes=going_on, late=late),)


def _concluded(state: Gathering, now: float) -> Gathering:
    stay = {n: replace(m, ready=False) for n, m in state.members.items() if not m.lost}
    return replace(
        state,
        stage="gathering",
        members={**stay, **state.returned},
        returned={},
        since=now,
        patience_s=state.later_s,
    )


def _waited(state: Gathering, event: Waited) -> Decision:
    if state.stage != "gathering" or event.now - state.since < state.patience_s:
        return state, ()
    # Node 0 is not ready while it waits for a restart, and misses nobody.
    missing = [n for n in state.missing if n != 0]
    if not missing or 0 in state.missing:
        return state, ()
    return replace(state, stage="over"), (Missing(nodes=tuple(missing)),)
