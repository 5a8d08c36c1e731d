"""When an attempt begins and ends on several nodes: no sequence of events starts one with a node missing,
or ends one before all have told."""

from __future__ import annotations

from hypothesis import settings, strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)
from tests.kit.widely import CHAOS

from ttf.supervise.nodes.gathering import (
    Action,
    BecameReady,
    Came,
    Conclude,
    EndAttempt,
    Event,
    Fetch,
    Gathering,
    Missing,
    Reported,
    StartAttempt,
    Waited,
    WasLost,
    gather,
)

EXAMPLES = 1000 if CHAOS else 60


def begun(nodes: int = 2) -> Gathering:
    return Gathering(nodes=nodes, since=0.0, patience_s=10.0, later_s=100.0)


def play(state: Gathering, *events: Event) -> tuple[Gathering, list[Action]]:
    found: list[Action] = []
    for event in events:
        state, actions = gather(state, event)
        found += actions
    return state, found


def came(node: int, now: float = 1.0) -> Came:
    return Came(now=now, node=node, host=f"host-{node}")


def ready(node: int, *, run: bool = False, newest: int = -1) -> BecameReady:
    return BecameReady(now=1.0, node=node, ranks=1, has_run=run, newest=newest)


def test_an_attempt_begins_when_the_last_node_is_ready() -> None:
    state, actions = play(begun(), came(0), ready(0), came(1))
    assert actions == [] and state.missing == [1]
    state, actions = play(state, ready(1))
    assert actions == [StartAttempt(attempt=1, source=None)]


def test_a_death_on_one_node_ends_the_attempt_on_the_others_and_all_reports_are_awaited() -> None:
    state, _ = play(begun(3), *map(came, range(3)), *map(ready, range(3)))
    state, actions = play(state, Reported(now=2.0, node=2, well=False, late=True))
    assert actions == [EndAttempt(nodes=(0, 1), late=True)]
    state, actions = play(state, Reported(now=2.1, node=0, well=False))
    assert actions == [EndAttempt(nodes=(1,), late=False)]
    state, actions = play(state, Reported(now=2.2, node=1, well=False))
    assert actions == [Conclude()] and state.missing == [0, 1, 2]


def test_nodes_that_finish_wait_for_those_that_are_about_to() -> None:
    state, _ = play(begun(), came(0), came(1), ready(0), ready(1))
    state, actions = play(state, Reported(now=2.0, node=0, well=True))
    assert actions == []
    assert play(state, Reported(now=3.0, node=1, well=True))[1] == [Conclude()]


def test_a_lost_node_ends_the_attempt_and_may_come_back_before_it_is_over() -> None:
    state, _ = play(begun(), came(0), came(1), ready(0), ready(1))
    state, actions = play(state, WasLost(now=2.0, node=1, how="silent"))
    assert actions == [EndAttempt(nodes=(0,), late=False)]  # no trainer here is to blame
    state, actions = play(state, came(1, 3.0), ready(1))
    assert actions == []
    state, actions = play(state, Reported(now=3.1, node=0, well=False))
    assert actions == [Conclude()] and state.missing == [0]
    assert play(state, ready(0))[1] == [StartAttempt(attempt=2, source=None)]


def test_who_is_missing_is_named_after_the_patience_which_is_longer_later() -> None:
    state, _ = play(begun(3), came(0), ready(0), came(1), ready(1))
    assert play(state, Waited(now=9.0))[1] == []
    late, actions = play(state, Waited(now=10.0))
    assert actions == [Missing(nodes=(2,))] and late.stage == "over"
    state, _ = play(state, came(2), ready(2), WasLost(now=50.0, node=2, how="gone"))
    state, _ = play(state, Reported(now=51.0, node=0, well=False))
    state, _ = play(state, Reported(now=52.0, node=1, well=False), ready(0), ready(1))
    assert play(state, Waited(now=151.0))[1] == []
    assert play(state, Waited(now=152.0))[1] == [Missing(nodes=(2,))]


def test_node_0_without_the_run_fetches_it_from_the_node_that_has_most_of_it() -> None:
    state, actions = play(
        begun(3), *map(came, range(3)), ready(0), ready(1, run=True, newest=5), ready(2, run=True)
    )
    assert actions == [Fetch(node=1)]
    state, actions = play(state, ready(0, run=True))
    assert actions == [StartAttempt(attempt=1, source=1)]


class Nodes(RuleBasedStateMachine):
    """Any events in any order."""

    nodes = st.integers(0, 3)

    @initialize(nodes=st.integers(2, 4))
    def begin(self, nodes: int) -> None:
        self.state = begun(nodes)
        self.now, self.started, self.concluded, self.over = 0.0, 0, 0, False
        self.ready: set[int] = set()

    def _do(self, event: Event) -> None:
        before = self.state
        self.state, actions = gather(before, event)
        assert not (self.over and actions)
        for action in actions:
            match action:
                case StartAttempt():
                    assert before.stage == "gathering" and self.started == self.concluded
                    assert len(self.state.members) == self.state.nodes
                    assert all(m.ready and not m.lost for m in self.state.members.values())
                    self.started += 1
                    assert action.attempt == self.started
                case Conclude():
                    self.concluded += 1
                    assert self.concluded == self.started
                case EndAttempt():
                    assert before.stage == "running" and action.nodes
                case Missing():
                    assert before.stage == "gathering" and 0 not in action.nodes
                    self.over = True
                case Fetch():
                    assert not before.members[0].has_run

    @rule(node=nodes, seconds=st.floats(0, 20))
    def comes(self, node: int, seconds: float) -> None:
        self.now += seconds
        self._do(Came(now=self.now, node=node % self.state.nodes, host="h"))

    @rule(node=nodes, run=st.booleans())
    def is_ready(self, node: int, run: bool) -> None:
        node %= self.state.nodes
        self._do(BecameReady(now=self.now, node=node, ranks=1, has_run=run))

    @rule(node=nodes, how=st.sampled_from(["silent", "gone"]))
    def is_lost(self, node: int, how: str) -> None:
        node %= self.state.nodes
        if node:  # node 0 is where this is decided
            self._do(WasLost(now=self.now, node=node, how=how))  # type: ignore[arg-type]

    @rule(node=nodes, well=st.booleans(), late=st.booleans())
    def reports(self, node: int, well: bool, late: bool) -> None:
        self._do(Reported(now=self.now, node=node % self.state.nodes, well=well, late=late))

    @rule(seconds=st.floats(0, 200))
    def waits(self, seconds: float) -> None:
        self.now += seconds
        self._do(Waited(now=self.now))

    @invariant()
    def while_it_runs_nobody_is_forgotten(self) -> None:
        state = getattr(self, "state", None)
        if state is not None and state.stage == "running":
            assert set(state.members) == set(range(state.nodes))
            assert any(not (m.reported or m.lost) for m in state.members.values())


def test_no_sequence_of_events_breaks_it() -> None:
    run_state_machine_as_test(Nodes, settings=settings(max_examples=EXAMPLES, deadline=None))
