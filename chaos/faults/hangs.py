"""Something stands still: the trainer, the miner's worker, a checkpoint that is being written."""

from __future__ import annotations

import os
import signal
import time
from typing import Final

import psutil
from chaos.campaign import Case, Fault
from chaos.faults.failpoints import armed
from chaos.running import LONGEST_S, Running
from chaos.verdict import Verdict, incidents, judge_classes, judge_end
from chaos.world import STEPS

TIMEOUT_S: Final = 12.0
"""Longer than loading torch takes on a busy machine: that has no sign of life either."""
DEADLINE_S: Final = 8.0
CONTINUED_S: Final = 0.5
_SETTINGS: Final = (
    *("--set", f"supervise.hang_timeout_s={TIMEOUT_S}"),
    *("--set", f"miner.deadline_s={DEADLINE_S}"),
)
KINDS: Final = ("trainer", "miner", "checkpoint thread", "checkpoint write")


def run(case: Case) -> Verdict:
    verdict, place = Verdict(), case.place()
    reference = case.reference
    kind = KINDS[case.number % len(KINDS)]
    more: dict[str, str] = {}
    if kind.startswith("checkpoint"):
        # A thread that sleeps lets the training go on; SIGSTOP takes the whole process.
        fault = "sleep" if kind == "checkpoint thread" else "stop"
        at = case.rng.randrange(1, 150)
        more = armed(place.root / "struck", f"checkpoint.*:{at}:{fault}")
    with Running(place, case.words(place, *_SETTINGS), more=more) as running:
        if not more:
            verdict.deaths = _stopped(case, running, kind)
        code = running.ended()
    verdict.deaths = 1 if more else verdict.deaths
    verdict.phases[kind] += verdict.deaths
    judge_end(verdict, place, code, reference)
    process = "miner" if kind == "miner" else "trainer"
    judge_classes(verdict, place, [(process, "hang")], at_least=verdict.deaths)
    for incident in incidents(place):
        stacks = place.run / "incidents" / incident["id"] / "faulthandler.txt"
        verdict.require(b"File " in stacks.read_bytes(), f"no stacks in incident {incident['id']}")
    return verdict


def _stopped(case: Case, running: Running, kind: str) -> int:
    """Stops it at a random moment, for good; how often it was there to be stopped."""
    least = case.rng.randrange(0, STEPS - 30)
    mining = kind == "miner"
    flight = running.when(lambda f: f.step >= least and (f.phase == "mining") >= mining)
    if mining:
        running.look_on(case.rng.uniform(0.0, 0.05))
    pid = running.worker() if mining else running.trainer_seen()
    if flight is None or pid is None:
        return 0
    return int(_held(running, pid))


def _held(running: Running, pid: int) -> bool:
    """Until it is dead: who looks for its stacks continues it for a moment. False where it was
    gone before."""
    try:
        os.kill(pid, signal.SIGSTOP)
        for _ in running.looks(LONGEST_S):
            if psutil.Process(pid).status() != psutil.STATUS_STOPPED:
                time.sleep(CONTINUED_S)  # at once, and it could never write its stacks
                os.kill(pid, signal.SIGSTOP)
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                return True
    except (ProcessLookupError, psutil.NoSuchProcess):
        return not running.over
    return False


FAULT: Final = Fault(
    name="hang",
    title="trainer, worker or a checkpoint's write stopped (SIGSTOP, sleep): noticed, restarted",
    runs=6,
    quick=4,
    run=run,
)
