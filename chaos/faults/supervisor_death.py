"""The supervisor is killed: its children leave, and `ttf resume` goes on, until it is finished."""

from __future__ import annotations

import signal
from typing import Final

from chaos.campaign import Case, Fault
from chaos.faults.trainer_death import TARGETS
from chaos.running import Place, Running, kill_and_wait, wait_until
from chaos.verdict import LEAVE_S, Verdict, incidents, judge_end
from chaos.world import INTERVAL, STEPS
from tests.kit.processes import command_line

DEATHS: Final = 4
"""In each run."""
_AIMS: Final = ("any", "writing", "mining", "start", "evaluate", "checkpoint", "any", "end")


def run(case: Case) -> Verdict:
    verdict, place = Verdict(), case.place()
    reference = case.reference
    for shot in range(DEATHS):
        if not _killed(case, place, verdict, shot):
            break
    with Running(place, case.again(place)) as running:
        code = running.ended()
    judge_end(verdict, place, code, reference)
    found = incidents(place)
    verdict.incidents_right = not found
    verdict.require(not found, f"incidents {[i['class'] for i in found]}: its children only left")
    return verdict


def _killed(case: Case, place: Place, verdict: Verdict, shot: int) -> bool:
    """False where the run ended first."""
    aim = case.rng.choice(_AIMS)
    share = STEPS / DEATHS
    least = 0 if aim in ("start", "end") else int(case.rng.uniform(shot, shot + 0.8) * share)
    wanted = TARGETS[aim]
    with Running(place, case.again(place)) as running:
        if aim == "start":
            running.look_on(case.rng.uniform(0.0, 4.0))
        elif running.when(lambda f: f.step >= least and wanted(f)) is None:
            return False
        pid = running.process.pid
        death = running.last_record(INTERVAL, signal.SIGKILL, lambda: _gone(running, verdict, pid))
        if death is not None:
            verdict.died([death])
        return True


def _gone(running: Running, verdict: Verdict, pid: int) -> bool:
    """Kills it, and waits for its children to leave."""
    killed = kill_and_wait(pid, signal.SIGKILL)
    place = running.place
    gone = wait_until(lambda: not place.living(), LEAVE_S)
    if not gone:
        left = [command_line(pid) for pid in place.living()]
        verdict.problems.append(f"still there {LEAVE_S:g} s after the supervisor's death: {left}")
    return killed


FAULT: Final = Fault(
    name="supervisor-death",
    title="supervisor killed (KILL), nobody left after 2 s, ttf resume",
    runs=6,
    quick=2,
    run=run,
)
