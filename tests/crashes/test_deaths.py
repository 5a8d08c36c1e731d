"""The trainer dies, and the run ends as if it had not."""

from __future__ import annotations

import signal
from pathlib import Path

from tests.crashes.conftest import Start
from tests.crashes.harness import EVERY, assert_undisturbed, in_phase, incidents_of, saving

KILL, SEGV, ABRT = signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT
BUS, ILL, FPE = signal.SIGBUS, signal.SIGILL, signal.SIGFPE
CLASS = {
    KILL: "killed",
    SEGV: "segfault",
    ABRT: "abort",
    BUS: "bus-error",
    ILL: "illegal-instruction",
    FPE: "illegal-instruction",
}


def test_a_death_in_every_phase_of_one_run_changes_nothing(
    train: Start, run: Path, undisturbed: str
) -> None:
    live = train()
    live.hit(live.trainer(), KILL)  # before it knows its configuration
    strikes = [
        (ABRT, in_phase("mining"), "mining"),
        (SEGV, in_phase("forward", since=EVERY + 1), "forward"),
        (BUS, in_phase("backward", since=2 * EVERY + 1), "backward"),
        (ILL, in_phase("optimizer", since=3 * EVERY + 1), "optimizer"),
        (FPE, in_phase("data", since=4 * EVERY + 1), "data"),
        (KILL, saving(since=5 * EVERY), None),
        (SEGV, in_phase("evaluate", since=6 * EVERY), "evaluate"),
        (KILL, in_phase("end"), "end"),
    ]
    seen = [(signum, live.strike(signum, where)) for signum, where, _ in strikes]
    ended = live.wait()
    assert ended.code == 0, ended.err
    assert_undisturbed(run, undisturbed, restarts=1 + len(strikes))
    first, *others = incidents_of(run)
    assert (first["class"], first["phase"], first["step"]) == ("killed", "start", 0)
    for incident, (signum, flight), (_, _, phase) in zip(others, seen, strikes, strict=True):
        assert incident["class"] == CLASS[signum] and incident["signal"] == signum
        assert incident["phase"] == flight.phase and incident["step"] == flight.step
        assert phase in (None, flight.phase)
