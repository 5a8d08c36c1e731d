"""The trainer dies, and the run ends as if it had not."""

from __future__ import annotations

import re
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.kit import saboteur as sabotage
from tests.kit.fixtures.crashes import Start
from tests.kit.live_run import LiveRun, in_phase, saving, summary_of
from tests.kit.processes import adopting
from tests.kit.struck_run import EVERY, World, assert_undisturbed, incidents_of, litter
from tests.kit.widely import CHAOS, wide

from ttf.errors import ExitCode
from ttf.incidents.death import Place

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


@pytest.mark.parametrize(
    "turn", [0, *(pytest.param(turn, marks=wide) for turn in range(1, len(CLASS)))]
)
def test_a_death_in_every_phase_of_one_run_changes_nothing(
    train: Start, run: Path, undisturbed: str, turn: int
) -> None:
    """With another signal in each; over all turns, with each signal in each."""
    phases = [
        in_phase("mining"),
        in_phase("forward", since=EVERY + 1),
        saving(since=5 * EVERY),
        in_phase("evaluate", since=6 * EVERY),
        in_phase("end"),
    ]
    if CHAOS:
        others = (("backward", 2), ("optimizer", 3), ("data", 4))
        phases[2:2] = [in_phase(name, since=turn * EVERY + 1) for name, turn in others]
        phases.insert(0, in_phase("start"))  # as in test_two_runs.py
    signals = [list(CLASS)[(turn + number) % len(CLASS)] for number in range(len(phases))]
    live = train()
    seen = [live.strike(signum, where) for signum, where in zip(signals, phases, strict=True)]
    ended = live.wait()
    assert ended.code == 0, ended.err
    assert_undisturbed(run, undisturbed, restarts=len(phases))
    for incident, signum, flight in zip(incidents_of(run), signals, seen, strict=True):
        assert incident["class"] == CLASS[signum]
        # While it dumps the stacks of threads that run, Python's own handler may crash.
        assert incident["signal"] in (signum, SEGV)
        assert incident["phase"] == flight.phase and incident["step"] == flight.step
        place = Place.of(flight)
        assert incident["micro_batch"] == place.micro_batch and incident["age_s"] > 0
        assert incident["batch_of_epoch"] == place.batch_of_epoch
    forward = next(found for found in incidents_of(run) if found["phase"] == "forward")
    assert 1 <= forward["micro_batch"] <= forward["micro_batches"] and forward["epoch"] >= 1
    assert 0 < forward["boundary_share"] <= 1 and forward["memory_bytes"] > 0


@pytest.mark.parametrize(
    ("life", "steps"),
    [
        pytest.param("5 steps", 15, marks=wide),
        pytest.param("20 steps", 3000, marks=[wide, pytest.mark.timeout(3600)]),
        pytest.param("3 s", 7500, marks=[wide, pytest.mark.timeout(7200)]),
    ],
)
def test_a_run_whose_trainers_all_die_young_ends_with_the_same_weights(
    world: World, train: Start, run: Path, tmp_path: Path, life: str, steps: int
) -> None:
    """None lives until the configured checkpoint: they save more often, as often as it takes."""
    whole = tmp_path / "whole"
    with LiveRun(world, world.config(whole, steps=steps), whole) as live:
        assert live.wait(3600).code == 0
    with adopting() as reaped:
        ended = train(env={**sabotage.HURRIES, sabotage.LIFE: life}, steps=steps).wait(7200)
        assert reaped() == []  # not a zombie was left
    assert ended.code == 0, ended.err
    deaths = len(incidents_of(run))
    assert deaths >= (300 if life == "3 s" else steps // int(life.split()[0]))
    assert_undisturbed(run, summary_of(whole)["weights_sha256"], restarts=deaths, lost=steps)


@wide
@pytest.mark.parametrize(
    ("failpoint", "deaths"),
    [
        ("round.write:5:kill", 1),
        # Each trainer writes one block of a round, or dies in the next; a round has two of queries
        # and one of positives.
        ("round.write:3:kill", 12),
    ],
)
def test_a_trainer_killed_in_a_block_of_a_round_goes_on_behind_the_last_whole_one(
    train: Start, run: Path, undisturbed: str, failpoint: str, deaths: int
) -> None:
    every = {"TTF_FAILPOINT_EVERY": "1"} if deaths > 1 else {}
    ended = train(env={"TTF_FAILPOINT": failpoint, **every}).wait()
    assert ended.code == 0, ended.err
    found = incidents_of(run)
    assert [incident["phase"] for incident in found] == ["mining"] * len(found)
    assert len(found) == 1 if deaths == 1 else len(found) >= deaths
    assert_undisturbed(run, undisturbed, restarts=len(found), lost=60)
    assert not list(run.glob("candidates/round-*"))


FROM_WITHIN = [
    ("forward", "segv"),
    ("backward", "cut-line"),
    ("forward", "garbage"),
]
OTHERS = [
    ("start", "exit"),  # as where the line is cut, but earlier
    ("encode", "abrt"),
    ("step", "bus"),
    ("forward", "ill"),
    ("backward", "fpe"),
    ("forward", "nonsense"),
]
NATIVE = {"segv": SEGV, "abrt": ABRT, "bus": BUS, "ill": ILL, "fpe": FPE}
WHY_GARBAGE = {"garbage": "announces a length", "nonsense": "is not valid"}


@pytest.mark.parametrize(
    "faults",
    [FROM_WITHIN, pytest.param(OTHERS, marks=wide)],
    ids=lambda faults: " ".join(act for _, act in faults),
)
def test_deaths_from_within_are_told_apart_and_change_nothing(
    train: Start, run: Path, undisturbed: str, tmp_path: Path, faults: list[tuple[str, str]]
) -> None:
    """Native faults, an exit without a last word, and what is no message, one after another."""
    ended = train(env=sabotage_in_turn(tmp_path, faults)).wait()
    assert ended.code == 0, ended.err
    assert_undisturbed(run, undisturbed, restarts=len(faults))
    for number, ((_, act), incident) in enumerate(
        zip(faults, incidents_of(run), strict=True), start=1
    ):
        folder = run / "incidents" / f"{number:03d}"
        if act in NATIVE:
            assert_names_the_python_line(folder, incident, NATIVE[act])
        elif act in WHY_GARBAGE:
            assert incident["class"] == "unknown" and incident["signal"] == KILL
            assert WHY_GARBAGE[act] in incident["explanation"]
        else:
            assert (incident["class"], incident["exit_code"]) == ("vanished", 0)
        if act == "cut-line":
            cut = bytes(range(1, 256)) + b"\nand this line is cut in its mid"
            assert (folder / "stderr.txt").read_bytes() == cut
            assert cut in (run / "stderr.txt").read_bytes()


def assert_names_the_python_line(folder: Path, incident: dict[str, Any], signum: int) -> None:
    assert incident["class"] == CLASS[signal.Signals(signum)]
    assert incident["signal"] in (signum, SEGV)
    stacks = (folder / "faulthandler.txt").read_text()
    if stacks.count("Fatal Python error") > 1:
        return  # Python's own handler crashed, at the stack of a thread that was running
    assert re.search(r'sabotage_plugin.py", line \d+ in perhaps', stacks), stacks
    places = [e["text"] for e in incident["evidence"] if e["source"] == "faulthandler"]
    assert [text for text in places if text.startswith("Python was at ")], incident["evidence"]


def test_a_crash_that_comes_back_every_time_ends_with_the_whole_story(
    train: Start, run: Path, tmp_path: Path
) -> None:
    crash = sabotage.spec(tmp_path / "notes", "forward", "segv", step=2 * EVERY + 1, times=99)
    ended = train("supervise.max_restarts=2", env=sabotage.variable(crash)).wait()
    assert ended.code == ExitCode.GAVE_UP
    summary = summary_of(run)
    assert summary["status"] == "failed" and summary["exit_code"] == ExitCode.GAVE_UP
    # The last trainer saved right before the crash: that is no progress.
    assert (summary["steps"], summary["restarts"]) == (2 * EVERY + 1, 2)
    assert {i["class"] for i in summary["incidents"]} == {"segfault"}
    numbers = [i["id"] for i in summary["incidents"]]
    assert len(numbers) == summary["restarts"] + 1
    error = ended.json()["error"]
    assert error["class"] == "GaveUp" and error["exit_code"] == ExitCode.GAVE_UP
    for told in (ended.err, summary["problem"], error["message"]):
        for number in numbers:
            assert f"{number} segfault at step 41 in forward" in told
        assert f"incidents/{numbers[-1]}/" in told
    assert "ttf resume" in error["hint"]
    assert litter(run) == []
    log = (run / "log.txt").read_text()
    assert all(f"{number} segfault at step 41" in log for number in numbers), log
    assert log.count("restart") >= 2 and f"--- ended: {error['message'].splitlines()[0]}" in log, (
        log
    )


@wide
def test_an_error_that_python_raises_twice_at_one_place_is_passed_on(
    train: Start, run: Path, tmp_path: Path
) -> None:
    raises = sabotage.spec(tmp_path / "notes", "backward", "raise", step=EVERY + 5, times=9)
    ended = train(env=sabotage.variable(raises)).wait()
    assert ended.code == ExitCode.OUR_FAULT
    assert [i["class"] for i in incidents_of(run)] == ["python-error"] * 2
    assert "RuntimeError: what a plugin says" in ended.err
    assert summary_of(run)["restarts"] == 1
    traceback = (run / "incidents" / "002" / "stderr.txt").read_text()
    assert "Traceback (most recent call last)" in traceback
    assert "sabotage_plugin.py" in traceback


@wide
def test_an_error_that_python_raises_once_changes_nothing(
    train: Start, run: Path, undisturbed: str, tmp_path: Path
) -> None:
    raises = sabotage.spec(tmp_path / "notes", "forward", "raise", step=EVERY + 5)
    leaves = sabotage.spec(tmp_path / "notes", "forward", "leave", step=2 * EVERY + 5)
    ended = train(env=sabotage.variable(raises, leaves)).wait()
    assert ended.code == 0, ended.err
    assert_undisturbed(run, undisturbed, restarts=2)


def test_a_plugin_that_cannot_be_imported_is_named_and_not_tried_again(
    train: Start, run: Path, tmp_path: Path
) -> None:
    broken = sabotage.spec(tmp_path / "notes", "import", "raise", times=99)
    ended = train(env=sabotage.variable(broken)).wait()
    assert ended.code == ExitCode.USAGE
    assert ended.json()["error"]["class"] == "ConfigError"
    assert "of the distribution sabotage 1.0 failed to load" in ended.err
    assert len(list((tmp_path / "notes").iterdir())) == 3  # tower, miner, observer, once each
    assert not run.exists()


@pytest.mark.parametrize(
    ("act", "kind"),
    [("abrt", "abort"), ("exit", "vanished"), ("close", "unknown"), ("deadlock", "hang")],
)
def test_a_plugin_whose_import_ends_or_holds_the_trainer_is_named_at_its_first_death(
    train: Start, run: Path, tmp_path: Path, act: str, kind: str
) -> None:
    broken = sabotage.spec(tmp_path / "notes", "import", act, times=99)
    ended = train("supervise.hang_timeout_s=1", env=sabotage.variable(broken)).wait()
    assert ended.code == ExitCode.USAGE, ended.err
    assert ended.json()["error"]["class"] == "PluginBroken"
    for told in ("importing the plugin tower.sabotaged", "sabotage 1.0", "sabotage_plugin"):
        assert told in ended.err
    assert [i["class"] for i in incidents_of(run)] == [kind]


def sabotage_in_turn(folder: Path, faults: Sequence[tuple[str, str]]) -> dict[str, str]:
    """One fault after each checkpoint; whichever process comes there meets it, once."""
    specs = [
        sabotage.spec(folder / "notes", at, act, step=0 if at == "start" else number * EVERY + 1)
        for number, (at, act) in enumerate(faults, start=1)
    ]
    return sabotage.variable(*specs)
