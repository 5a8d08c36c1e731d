"""The miner's worker dies once in every request: while it starts, builds, searches or is done."""

from __future__ import annotations

import random
from typing import Final

from chaos.campaign import Case, Fault
from chaos.running import Death, Running, kill_and_wait
from chaos.verdict import FATAL, IDLE, Verdict, judge_deaths, judge_end, summary_of

from ttf.rundir.flight_record import Flight

_COLD_S: Final = 1.0
"""The first worker loads its library and builds its index."""
_WARM_S: Final = 0.06


def run(case: Case) -> Verdict:
    verdict, place = Verdict(), case.place()
    reference = case.reference
    deaths: list[Death] = []
    with Running(place, case.words(place)) as running:
        longest = _COLD_S
        while running.when(is_mining) is not None:
            deaths += kill_in_this_round(running, case.rng, longest)
            longest = _WARM_S
            if running.when(lambda flight: not is_mining(flight)) is None:
                break
        code = running.ended()
    verdict.deaths = len(deaths)
    verdict.phases.update(death.phase for death in deaths)
    judge_end(verdict, place, code, reference)
    judge_deaths(verdict, place, deaths, "miner")
    miner = str(summary_of(place).get("miner"))
    verdict.require(case.configuration.endswith(miner), f"{miner} took over")
    return verdict


def is_mining(flight: Flight) -> bool:
    return flight.phase == "mining"


def kill_in_this_round(running: Running, rng: random.Random, longest: float) -> list[Death]:
    """Whatever the worker is doing after a random while; it may have become idle by then."""
    running.when(lambda flight: not is_mining(flight) or running.worker() is not None)
    running.look_on(rng.uniform(0.0, longest))
    pid, signum = running.worker(), rng.choice(FATAL)
    flight = running.flight()
    if pid is None or flight is None or not kill_and_wait(pid, signum):
        return []
    after = running.flight() or flight
    phase = flight.phase if is_mining(flight) and is_mining(after) else IDLE
    return [Death(signum=signum, phase=phase, step=flight.step, writing=False, redone=0, bound=0)]


FAULT: Final = Fault(
    name="miner-death",
    title="miner's worker killed (KILL, SEGV, ABRT, BUS) in every request",
    runs=6,
    quick=3,
    run=run,
)
