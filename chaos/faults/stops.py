"""Somebody asks for an end, by Ctrl-C or by the system's way, at any moment; then goes on."""

from __future__ import annotations

import signal
from typing import Final

from chaos.campaign import Case, Fault
from chaos.running import Place, Running
from chaos.verdict import Verdict, incidents, judge_end, last_words, summary_of
from chaos.world import STEPS

from ttf.rundir.verified_folders import newest_step

STOPS: Final = 3
"""In each run."""
CODES: Final = {signal.SIGINT: 130, signal.SIGTERM: 143}


def run(case: Case) -> Verdict:
    verdict, place = Verdict(), case.place()
    reference = case.reference
    for shot in range(STOPS):
        _stop(case, place, verdict, shot)
    with Running(place, case.again(place)) as running:
        code = running.ended()
    judge_end(verdict, place, code, reference)
    found = incidents(place)
    verdict.incidents_right = not found
    verdict.require(not found, f"incidents {[i['class'] for i in found]}: a stop is none")
    return verdict


def _stop(case: Case, place: Place, verdict: Verdict, shot: int) -> None:
    signum = case.rng.choice(list(CODES))
    share = STEPS / STOPS
    least = int(case.rng.uniform(shot, shot + 0.8) * share)
    early = case.rng.random() < 0.25
    with Running(place, case.again(place)) as running:
        if early:
            running.look_on(case.rng.uniform(0.5, 4.0))
        else:
            running.when(lambda flight: flight.step >= least)
            running.look_on(case.rng.uniform(0.0, 0.3))
        if running.over:
            return
        running.process.send_signal(signum)
        code = running.ended()
    if code == 0:
        return  # it was faster
    if code == -signum and not (place.run / "run.toml").exists():
        return  # before there was a run, and anybody to catch it
    verdict.deaths += 1
    if not verdict.require(code == CODES[signum], f"exit code {code}: {last_words(place)}"):
        return
    summary = summary_of(place)
    if not summary:
        return  # it had not begun
    saved = newest_step(place.run / "checkpoints")
    verdict.redone.append(max(0, summary["steps"] - max(0, saved)))
    verdict.bounds.append(0)
    verdict.require(
        verdict.redone[-1] == 0, f"stopped after step {summary['steps']}, saved: {saved}"
    )
    verdict.require(summary["status"] == "stopped", f"status {summary['status']}")


FAULT: Final = Fault(
    name="stop",
    title="SIGINT or SIGTERM at random moments: saved, exit 130 or 143, ttf resume",
    runs=5,
    quick=2,
    run=run,
)
