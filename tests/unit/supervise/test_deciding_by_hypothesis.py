"""No sequence of events makes the supervisor loop, start two trainers, or act without cause.

A counterexample is printed as the calls that lead to it; the seed is fixed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hypothesis import given, settings, strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from tests.kit.widely import CHAOS

from ttf.incidents.death import Remedy
from ttf.supervise.decide import decide, initial, wake_at
from ttf.supervise.events import (
    Action,
    AskToLeave,
    AskToShed,
    AskToStop,
    Beat,
    Checkpointed,
    Configured,
    Died,
    DumpStacks,
    Ended,
    EndWithError,
    Event,
    Finish,
    GiveUp,
    Kill,
    Life,
    Pressure,
    SaveEvery,
    Say,
    Settings,
    Signalled,
    Spawn,
    Started,
    Stop,
    Suspended,
    Tick,
)
from ttf.supervise.restart_rules import MOST_REMEDIES

EXAMPLES = 1000 if CHAOS else 120
LAST = (Stop, GiveUp, Finish, EndWithError)
TO_A_TRAINER = (AskToStop, AskToShed, AskToLeave, SaveEvery, DumpStacks, Kill)

names = st.sampled_from(["segfault", "python-error", "oom-kill", "hang", "killed"])
phases = st.sampled_from(["start", "forward", "mining", "checkpoint"])
few = st.integers(0, 2)
lives = st.builds(Life, steps=st.integers(0, 10**6), seconds=st.floats(0, 1e6))
values = st.one_of(st.integers(0, 3), st.sampled_from(["process", "none"]))
remedies = st.lists(
    st.builds(
        Remedy,
        text=st.just("a remedy"),
        set=st.dictionaries(st.sampled_from(["miner.isolation", "train.batch_size"]), values),
    ),
    max_size=3,
).map(tuple)
chosen = st.builds(
    Settings,
    max_restarts=st.integers(0, 4),
    hang_timeout_s=st.sampled_from([None, 5.0, 60.0]),
    remedies=st.booleans(),
)
flats = st.fixed_dictionaries({"miner.isolation": st.sampled_from(["process", "none"])})
pauses = st.floats(0, 2000)


class Supervised(RuleBasedStateMachine):
    """A world that keeps the protocol, and does within it what hypothesis likes."""

    @initialize(settings=chosen)
    def begin(self, settings: Settings) -> None:
        self.now = 1000.0
        self.settings = settings
        self.pending = self.alive = self.over = self.configured = False
        self.signals = 0
        self.checkpoint = -1
        self.asked_to_leave = self.starting = False
        self.dumped_at: float | None = None
        self.killed = ""
        self.unchanged = 0
        self.place: tuple[str, int, str] | None = None
        self.save_every = 0
        self.seen: set[str] = set()
        self.overlay: dict[str, Any] = {}
        self.deaths = 0
        self.state, actions = initial(self.now, settings=settings)
        self.obey(None, actions)

    def tell(self, event: Event) -> tuple[Action, ...]:
        was_over = self.over
        self.state, actions = decide(self.state, event)
        assert not (was_over and actions), "something was done after the end"
        self.obey(event, actions)
        return actions

    def obey(self, event: Event | None, actions: Sequence[Action]) -> None:
        for number, action in enumerate(actions):
            if isinstance(action, LAST):
                assert number == len(actions) - 1
                self.check_last(event, action)
                self.over = True
            elif isinstance(action, Spawn):
                self.check_spawn(event, action)
                self.pending = True
            elif isinstance(action, TO_A_TRAINER):
                assert self.alive and not self.killed, "there is nobody to tell"
                self.check_told(event, action)
            else:
                assert isinstance(action, Say) and action.text

    def check_last(self, event: Event | None, action: Action) -> None:
        if isinstance(action, Stop):
            assert self.signals
        elif isinstance(action, Finish):
            assert isinstance(event, Ended)
        else:
            assert isinstance(event, Died)
        if isinstance(action, EndWithError):
            assert isinstance(event, Died)
            assert event.name == "python-error" or not event.retry
        if isinstance(action, GiveUp):
            assert self.unchanged == self.settings.max_restarts
            assert event is not None and isinstance(event, Died) and event.incident in action.text

    def check_spawn(self, event: Event | None, action: Spawn) -> None:
        assert not self.alive and not self.pending, "two trainers at once"
        if event is None:
            return
        assert isinstance(event, Died) and event.retry and not self.signals
        assert self.settings.max_restarts > 0 and 0 <= action.delay_s <= 30
        self.save_every = action.save_every
        assert self.save_every >= 0
        now = {key: change.value for key, change in action.overlay.items()}
        if now == self.overlay:
            self.unchanged += 1
            assert self.unchanged <= self.settings.max_restarts
        else:
            assert self.settings.remedies and repr(now) not in self.seen, "a remedy came back"
            self.unchanged = 0
        self.overlay = now
        self.seen.add(repr(now))

    def check_told(self, event: Event | None, action: Action) -> None:
        match action:
            case AskToStop():
                assert isinstance(event, Signalled) and self.signals == 1
            case AskToShed():
                assert isinstance(event, Pressure) and event.share >= 0.9
            case AskToLeave():
                assert isinstance(event, Pressure) and event.share >= 0.95
                assert not self.asked_to_leave
                self.asked_to_leave = True
            case SaveEvery():
                assert isinstance(event, Checkpointed)
                assert action.steps == 0 or action.steps > self.save_every > 0
                self.save_every = action.steps
            case DumpStacks():
                assert isinstance(event, Tick) and self.dumped_at is None
                self.dumped_at = self.now
            case Kill(why="hang"):
                assert isinstance(event, Tick)
                assert self.dumped_at is not None and self.now >= self.dumped_at
                self.killed = "hang"
            case Kill(why="memory"):
                assert self.asked_to_leave
                self.killed = "memory"
            case Kill():
                assert self.signals == 2 or self.starting
                self.killed = "stop"

    @precondition(lambda self: self.pending)
    @rule()
    def spawned(self) -> None:
        if not self.over:
            self.pending, self.alive = False, True
            self.configured, self.asked_to_leave = False, False
            self.dumped_at, self.killed = None, ""
            self.starting = True
            self.tell(Started(now=self.now))

    @precondition(lambda self: self.alive and not self.configured)
    @rule(flat=flats, offered=remedies)
    def configures(self, flat: dict[str, Any], offered: tuple[Remedy, ...]) -> None:
        self.configured = True
        now = {key: change.value for key, change in self.state.overlay.items()}
        event = Configured(
            now=self.now, settings=self.settings, flat=flat | now, memory_remedies=offered
        )
        assert self.tell(event) == ()

    @rule(seconds=pauses)
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @precondition(lambda self: self.alive and not self.killed)
    @rule(phase=phases, step=few, ago=st.floats(-5, 100), saving=st.none() | pauses)
    def beats(self, phase: str, step: int, ago: float, saving: float | None) -> None:
        since = None if saving is None else self.now - saving
        self.starting = phase == "start"
        self.tell(Beat(now=self.now, at=self.now - ago, step=step, phase=phase, saving_since=since))

    @precondition(lambda self: self.alive and not self.killed)
    @rule(cost=st.floats(0, 1e3), lived=lives)
    def saves(self, cost: float, lived: Life) -> None:
        self.tell(Checkpointed(now=self.now, step=1, cost_s=cost, lived=lived))

    @precondition(lambda self: self.alive)
    @rule(share=st.sampled_from([0.1, 0.79, 0.82, 0.86, 0.91, 0.96, 0.995, 1.2]))
    def presses(self, share: float) -> None:
        self.tell(Pressure(now=self.now, share=share))

    @precondition(lambda self: not self.over)
    @rule(signum=st.sampled_from([2, 15]))
    def signals_come(self, signum: int) -> None:
        running = self.alive
        self.signals += 1
        actions = self.tell(Signalled(now=self.now, signum=signum))
        if self.signals == 2 or not running or (self.starting and not self.killed):
            assert actions[-1] == Stop(signum=signum), "it was not obeyed at once"
        if self.over:
            self.alive = self.pending = False

    @rule(seconds=pauses)
    def is_suspended(self, seconds: float) -> None:
        self.now += seconds
        assert self.tell(Suspended(now=self.now, seconds=seconds)) == ()

    @precondition(lambda self: self.alive)
    @rule(
        name=names,
        certain=st.booleans(),
        step=few,
        phase=phases,
        grown=st.sampled_from([-1, 0, 0, 0, 0, 1]),
        offered=remedies,
        retry=st.sampled_from([True, True, True, True, False]),
        lived=lives | st.none(),
    )
    def dies(
        self,
        name: str,
        certain: bool,
        step: int,
        phase: str,
        grown: int,
        offered: tuple[Remedy, ...],
        retry: bool,
        lived: Life | None,
    ) -> None:
        if grown > 0:
            self.checkpoint += 1
            if (name, step, phase) != self.place:
                self.unchanged = 0
        self.place = (name, step, phase)
        self.alive = False
        self.deaths += 1
        actions = self.tell(
            Died(
                now=self.now,
                incident=f"{self.deaths:03}",
                name=name,
                certain=certain,
                step=step,
                phase=phase,
                checkpoint_step=max(-1, self.checkpoint + min(grown, 0)),
                remedies=offered,
                retry=retry,
                lived=lived,
            )
        )
        assert isinstance(actions[-1], (Spawn, *LAST)), "a death was not answered"

    @precondition(lambda self: self.alive)
    @rule(code=st.sampled_from([0, 0, 7, 130]))
    def ends(self, code: int) -> None:
        self.alive = False
        assert self.tell(Ended(now=self.now, exit_code=code)) == (Finish(),)

    @precondition(lambda self: self.alive and self.asked_to_leave)
    @rule(offered=remedies)
    def leaves(self, offered: tuple[Remedy, ...]) -> None:
        self.alive = False
        self.tell(Ended(now=self.now, exit_code=0, left="memory"))
        if not self.over:
            self.dies("memory-limit", True, 1, "forward", 1, offered, True, None)

    @precondition(lambda self: not self.over and wake_at(self.state) is not None)
    @rule(late=st.sampled_from([0.0, 0.0, 1.0, 500.0]))
    def ticks_when_asked_to(self, late: float) -> None:
        at = wake_at(self.state)
        assert at is not None
        self.now = max(self.now, at) + late
        actions = self.tell(Tick(now=self.now))
        after = wake_at(self.state)
        assert actions, "a Tick at its time did nothing"
        assert after is None or after > at, "it asks for the same moment again"

    @rule()
    def ticks_at_any_moment(self) -> None:
        self.tell(Tick(now=self.now))

    @invariant()
    def waits_for_a_trainer_alone(self) -> None:
        if not self.alive or self.over:
            assert wake_at(self.state) is None
        elif not self.killed:
            assert wake_at(self.state) is not None, "a hang would go unnoticed"


def test_a_run_that_keeps_the_protocol_is_never_lost() -> None:
    run_state_machine_as_test(
        Supervised,
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=40,
            deadline=None,
            derandomize=True,
            database=None,
        ),
    )


moments = st.just(0.0)
events: st.SearchStrategy[Event] = st.one_of(
    st.builds(Started, now=moments),
    st.builds(Configured, now=moments, settings=chosen, flat=flats, memory_remedies=remedies),
    st.builds(Beat, now=moments, at=st.floats(0, 1e6), step=few, phase=phases),
    st.builds(Checkpointed, now=moments, step=few, cost_s=st.floats(0, 1e3), lived=lives),
    st.builds(Pressure, now=moments, share=st.floats(0, 2)),
    st.builds(Signalled, now=moments, signum=st.sampled_from([2, 15])),
    st.builds(Suspended, now=moments, seconds=pauses),
    st.builds(Ended, now=moments, exit_code=few, left=st.sampled_from(["", "memory"])),
    st.builds(
        Died,
        now=moments,
        incident=st.just("001"),
        name=names,
        certain=st.booleans(),
        step=few,
        phase=phases,
        checkpoint_step=st.integers(-1, 3),
        remedies=remedies,
        retry=st.booleans(),
        lived=lives | st.none(),
    ),
    st.builds(Tick, now=moments),
)


@settings(max_examples=EXAMPLES, deadline=None, derandomize=True, database=None)
@given(chosen, st.lists(st.tuples(st.floats(0, 700), events), max_size=60))
def test_events_in_any_order_start_one_trainer_at_a_time_and_end_once(
    settings: Settings, story: list[tuple[float, Event]]
) -> None:
    now = 0.0
    state, actions = initial(now, settings=settings)
    spawned, ended = len(actions), False
    for pause, event in story:
        now += pause
        event = replace(event, now=now)
        waiting = state.stage == "spawning"
        state, actions = decide(state, event)
        assert not (ended and actions)
        ended = ended or any(isinstance(action, LAST) for action in actions)
        new = sum(isinstance(action, Spawn) for action in actions)
        assert new <= 1 and not (new and waiting)
        spawned += new
        assert state.history.restarts == spawned - 1
    assert ended == (state.stage == "over")


deaths = st.builds(
    Died,
    now=moments,
    incident=st.just("001"),
    name=st.sampled_from(["segfault", "oom-kill"]),
    certain=st.booleans(),
    step=few,
    phase=st.just("forward"),
    checkpoint_step=few,
    remedies=remedies,
)


@settings(max_examples=EXAMPLES, deadline=None, derandomize=True, database=None)
@given(chosen, st.lists(deaths, max_size=25))
def test_what_a_series_of_deaths_is_answered_with(settings: Settings, series: list[Died]) -> None:
    """Only a checkpoint that is newer than all before, or a configuration that was never tried,
    opens a new account; not a checkpoint that only came nearer to the same crash."""
    state, _ = initial(0.0, settings=settings)
    newest, unchanged = -1, 0
    place: tuple[str, int] | None = None
    tried: list[dict[str, Any]] = [{}]
    for died in series:
        state, _ = decide(state, Started(now=0.0))
        state, actions = decide(state, died)
        if died.checkpoint_step > newest:
            newest = died.checkpoint_step
            unchanged = unchanged if place == (died.name, died.step) else 0
        place = died.name, died.step
        if state.stage == "over":
            assert isinstance(actions[-1], GiveUp) and unchanged == settings.max_restarts
            return
        assert isinstance(actions[-1], Spawn)
        overlay = {key: change.value for key, change in state.overlay.items()}
        if overlay == tried[-1]:
            unchanged += 1
        else:
            assert overlay not in tried and settings.remedies
            unchanged = 0
            tried.append(overlay)
        assert unchanged <= settings.max_restarts


@settings(max_examples=EXAMPLES, deadline=None, derandomize=True, database=None)
@given(chosen, st.data())
def test_without_progress_every_run_ends_however_many_remedies_are_offered(
    settings: Settings, data: st.DataObject
) -> None:
    """Each death offers something new: the worst that a broken table of remedies could do."""
    most = (MOST_REMEDIES + 1) * (settings.max_restarts + 1)
    state, _ = initial(0.0, settings=settings)
    for death in range(most + 1):
        state, _ = decide(state, Started(now=0.0))
        new = Remedy(text="yet another", set={"train.batch_size": death})
        state, _ = decide(
            state,
            Died(
                now=0.0,
                incident=f"{death:03}",
                name=data.draw(names),
                certain=data.draw(st.booleans()),
                step=data.draw(few),
                phase="forward",
                checkpoint_step=-1,
                remedies=(new,),
            ),
        )
        if state.stage == "over":
            return
    raise AssertionError(f"still running after {most} deaths without a checkpoint")
