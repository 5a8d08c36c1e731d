"""A run of several trainers: a random one dies at random moments, and every death is named."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

from chaos.campaign import Case, Fault
from chaos.running import Place, Running
from chaos.verdict import CLASSES, FATAL, Verdict, judge_end
from chaos.world import STEPS, Reference, reference_of
from tests.kit.processes import children_of
from tests.kit.several import rank_folder, writes

from ttf.rundir.flight_record import Flight, read_flight

DEATHS: Final = 5
"""In each run."""
_AT_THE_START: Final = 0.2
CONFIGURATION: Final = "gru-exact"
SHARDS: Final = ("--set", "train.shards=8")
_LONGEST_AIM_S: Final = 60.0


def run(case: Case) -> Verdict:
    verdict, place = Verdict(), case.place()
    reference = case.world.once("reference of ranks", lambda: one_process(case))
    ranks = 2 + case.number % 2
    words = case.world.words(CONFIGURATION, place.run)
    struck: list[tuple[int, str]] = []
    with Running(place, [*words, *SHARDS, "--ranks", str(ranks)]) as running:
        since = 0.0
        for shot in range(DEATHS):
            least = int(case.rng.uniform(shot, shot + 0.8) * STEPS / DEATHS)
            rank, signum = case.rng.randrange(ranks), case.rng.choice(FATAL)
            wanted = partial(_has_come, since=since, least=least)
            if shot and case.rng.random() < _AT_THE_START:
                wanted = partial(_starts, since=since)
            pid = _when(running, rank_folder(place.run, rank), wanted)
            if pid is None:
                break
            time.sleep(case.rng.choice((0.0, case.rng.uniform(0.0, 0.3))))
            try:
                os.kill(pid, signum)
            except ProcessLookupError:
                break
            since = time.monotonic()
            struck.append((rank, CLASSES[signum]))
            _gone(pid)
        code = running.ended()
    verdict.deaths = len(struck)
    judge_end(verdict, place, code, reference)
    _judge_names(verdict, place.run, struck)
    return verdict


def one_process(case: Case) -> Reference:
    """The same run in one process that nobody touches."""
    place = Place(root=case.world.folder / "reference-ranks")
    with Running(place, [*case.world.words(CONFIGURATION, place.run), *SHARDS]) as running:
        code = running.ended()
    if code:
        raise RuntimeError(f"The undisturbed run failed: {place.said()}")
    return reference_of(place.run)


def _has_come(flight: Flight, *, since: float, least: int) -> bool:
    """Of an attempt that began after the last death: in the one before, all are about to end."""
    return flight.began_s is not None and flight.began_s > since and flight.step >= least


def _starts(flight: Flight, *, since: float) -> bool:
    return flight.phase == "start" and flight.monotonic_s > since


def _when(running: Running, folder: Path, wanted: Callable[[Flight], bool]) -> int | None:
    """The trainer of that folder, when it is there; None: the run is over."""
    ends_at = time.monotonic() + _LONGEST_AIM_S
    while not running.over and time.monotonic() < ends_at:
        flight = read_flight(folder / "flight.bin")
        if flight is not None and wanted(flight):
            for pid in children_of(running.pid):
                if writes(pid, folder):
                    return pid
        time.sleep(0.002)
    return None


def _gone(pid: int) -> None:
    ends_at = time.monotonic() + _LONGEST_AIM_S
    while Path(f"/proc/{pid}/maps").exists() and time.monotonic() < ends_at:
        time.sleep(0.002)


def _judge_names(verdict: Verdict, run: Path, struck: list[tuple[int, str]]) -> None:
    """An incident for each death, with its class and its rank."""
    found: list[dict[str, Any]] = [
        json.loads(path.read_text()) for path in sorted(run.glob("incidents/*/incident.json"))
    ]
    named = [(incident.get("rank"), incident["class"]) for incident in found]
    # While it dumps the stacks of threads that run, Python's own handler may crash.
    right = len(named) == len(struck) and all(
        rank == wanted and name in (cause, "segfault")
        for (rank, name), (wanted, cause) in zip(named, struck, strict=True)
    )
    verdict.incidents_right = right
    verdict.require(right, f"struck {struck}, named {named}")


FAULT: Final = Fault(
    name="rank-death",
    title="one of 2 or 3 trainers of a run killed (KILL, SEGV, ABRT, BUS) at random moments",
    runs=20,
    quick=2,
    run=run,
)
