"""The trainer dies at random moments, aimed so that every phase of a run is among them."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final

from chaos.campaign import Case, Fault
from chaos.running import Running
from chaos.verdict import FATAL, Verdict, judge_deaths, judge_end
from chaos.world import INTERVAL, STEPS

from ttf.rundir.flight_record import Flight

DEATHS: Final = 5
"""In each run."""
_START_S: Final = 3.0
_LONGEST_AIM_S: Final = 60.0


def is_writing(flight: Flight) -> bool:
    return flight.saving_since_s is not None


def in_phase(name: str) -> Callable[[Flight], bool]:
    return lambda flight: flight.phase == name


TARGETS: Final[dict[str, Callable[[Flight], bool]]] = {
    "start": in_phase("start"),
    "writing": is_writing,
    "mining": in_phase("mining"),
    "evaluate": in_phase("evaluate"),
    "checkpoint": in_phase("checkpoint"),
    "forward": in_phase("forward"),
    "backward": in_phase("backward"),
    "optimizer": in_phase("optimizer"),
    "data": in_phase("data"),
    "end": in_phase("end"),
    "any": lambda flight: flight.phase != "start",
}
_AIMS: Final = ("start", "writing", "mining", "evaluate", "any", "checkpoint", "writing", "forward",
                "backward", "optimizer", "mining", "data", "start", "evaluate", "end")  # fmt: skip


def run(case: Case) -> Verdict:
    verdict, place = Verdict(), case.place()
    reference = case.reference
    with Running(place, case.words(place)) as running:
        for shot in range(DEATHS):
            kill_once(running, case.rng, shot, _AIMS[(case.number * DEATHS + shot) % len(_AIMS)])
        code = running.ended()
    verdict.died(running.deaths)
    judge_end(verdict, place, code, reference)
    judge_deaths(verdict, place, running.deaths)
    return verdict


def kill_once(running: Running, rng: random.Random, shot: int, aim: str) -> None:
    """In the `shot`-th part of the run, where it is at what is aimed for."""
    if aim == "start":
        # From the first instruction to the restored state: there is no step to wait for.
        if running.when(TARGETS["start"], _LONGEST_AIM_S) is None:
            return
        running.look_on(rng.uniform(0.0, _START_S))
    else:
        share = STEPS / DEATHS
        least = int(rng.uniform(shot, shot + 0.8) * share)
        wanted = TARGETS[aim]
        if running.when(lambda f: f.step >= least and wanted(f), _LONGEST_AIM_S) is None:
            return
        running.look_on(rng.choice((0.0, 0.0, rng.uniform(0.0, 0.01))))
    running.kill_trainer(rng.choice(FATAL), INTERVAL)


FAULT: Final = Fault(
    name="trainer-death",
    title="trainer killed (KILL, SEGV, ABRT, BUS) at random moments of every phase",
    runs=23,
    quick=2,
    run=run,
)
