"""A run as a test tells it: what it sees, and what is done about it."""

from __future__ import annotations

from typing import Any

from ttf.incidents.death import Remedy
from ttf.supervise.decide import decide, initial, wake_at
from ttf.supervise.events import (
    Action,
    Beat,
    Configured,
    Died,
    Event,
    Pressure,
    Settings,
    Spawn,
    Started,
    Tick,
)

ISOLATE = Remedy(text="isolate the miner", set={"miner.isolation": "process"})
HALVE = Remedy(text="halve the micro-batch", set={"train.batch_size": 64}, deviation="rounding")
QUARTER = Remedy(text="halve it again", set={"train.batch_size": 32}, deviation="rounding")
ADVICE = Remedy(text="buy more memory")
FLAT = {"miner.isolation": "process", "train.batch_size": 128}


class Run:
    """A run that is told what happened, and remembers what was to be done."""

    def __init__(self, **settings: Any) -> None:
        self.settings = Settings(**settings)
        self.now = 0.0
        self.state, self.actions = initial(self.now, settings=self.settings)
        self.deaths = 0

    def sees(self, event: Event) -> tuple[Action, ...]:
        self.now = event.now
        self.state, self.actions = decide(self.state, event)
        return self.actions

    def starts(self, memory_remedies: tuple[Remedy, ...] = (), **flat: Any) -> Run:
        assert self.sees(Started(now=self.now)) == ()
        event = Configured(
            now=self.now,
            settings=self.settings,
            flat=FLAT | {key.replace("__", "."): value for key, value in flat.items()},
            memory_remedies=memory_remedies,
        )
        assert self.sees(event) == ()
        return self

    def trains(self, **more: Any) -> Run:
        """A trainer that is past its start."""
        self.starts(**more).beats("data")
        return self

    def beats(self, phase: str, after: float = 0.0, **more: Any) -> tuple[Action, ...]:
        now = self.now + after
        return self.sees(Beat(now=now, at=now, step=more.pop("step", 1), phase=phase, **more))

    def dies(self, name: str = "segfault", **more: Any) -> tuple[Action, ...]:
        self.deaths += 1
        known: dict[str, Any] = {
            "incident": f"{self.deaths:03}",
            "certain": False,
            "step": 7,
            "phase": "forward",
            "checkpoint_step": -1,
        }
        return self.sees(Died(now=self.now, name=name, **known | more))

    def presses(self, share: float, after: float = 0.0) -> tuple[Action, ...]:
        return self.sees(Pressure(now=self.now + after, share=share, text="9 GB of 10 GB"))

    def waits(self) -> tuple[Action, ...]:
        """Until the moment the state asks for."""
        at = wake_at(self.state)
        assert at is not None and at >= self.now
        return self.sees(Tick(now=at))

    def is_over(self) -> bool:
        return self.state.stage == "over"


def spawn(actions: tuple[Action, ...]) -> Spawn:
    (action,) = actions
    assert isinstance(action, Spawn)
    return action
