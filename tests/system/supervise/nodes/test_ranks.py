"""Several trainers on one machine: one of them dies, and the run ends as if it had not."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest
from tests.kit.live_run import Ended, LiveRun
from tests.kit.several import Several, rank_folder, reaches, results, strikes, until
from tests.kit.struck_run import incidents_of
from tests.kit.widely import wide

from ttf.rundir.flight_record import read_flight

CLASS = {signal.SIGKILL: "killed", signal.SIGSEGV: "segfault", signal.SIGABRT: "abort"}


def assert_equal(ended: Ended, undisturbed: dict[str, Any], ranks: int) -> None:
    """Every rank has what the undisturbed run has."""
    assert ended.code == 0, ended.err
    ended.assert_clean()
    assert ended.summary["exact"] is True, ended.summary["deviations"]
    assert ended.summary["world_size"] == ranks
    assert ended.digest == undisturbed["weights"]
    for local in range(ranks):
        found = results(rank_folder(ended.run, local))
        assert found["tables"] == undisturbed["tables"]
        assert found["metrics"] == undisturbed["metrics"]


def strike(live: LiveRun, run: Path, rank: int, signum: int, step: int) -> None:
    strikes(reaches(live, rank_folder(run, rank), step), signum)


def test_a_killed_rank_is_named_and_three_ranks_end_with_the_same_bits(
    several: Several, run: Path, undisturbed: dict[str, Any]
) -> None:
    with several.start(run, several.train(run, "--ranks", "3")) as live:
        strike(live, run, 1, signal.SIGKILL, 12)
        ended = live.wait()
    assert_equal(ended, undisturbed, 3)
    (incident,) = incidents_of(run)
    assert (incident["class"], incident["rank"]) == ("killed", 1)
    assert ended.summary["restarts"] == 1
    told = {line["source"]: line["text"] for line in incident["evidence"]}
    assert {"rank 0", "rank 2"} <= told.keys()


@wide
@pytest.mark.parametrize("signum", CLASS)
@pytest.mark.parametrize("ranks", [2, 3])
@pytest.mark.parametrize("rank", [0, 1])
def test_any_death_of_any_rank(
    several: Several, run: Path, undisturbed: dict[str, Any], signum: int, ranks: int, rank: int
) -> None:
    with several.start(run, several.train(run, "--ranks", str(ranks))) as live:
        strike(live, run, rank, signum, 23)
        ended = live.wait()
    assert_equal(ended, undisturbed, ranks)
    (incident,) = incidents_of(run)
    assert incident["rank"] == rank
    # While it dumps the stacks of threads that run, Python's own handler may crash.
    assert incident["class"] in (CLASS[signal.Signals(signum)], "segfault")


@wide
@pytest.mark.parametrize("phase", ["forward", "exchange"])
def test_a_rank_that_stands_still_is_named_with_its_stacks(
    several: Several, run: Path, undisturbed: dict[str, Any], phase: str
) -> None:
    """Also where all others wait as well."""
    words = several.train(run, "--ranks", "3", scale__exchange_timeout_s=10)
    with several.start(run, words) as live:
        folder = rank_folder(run, 2)
        pid = reaches(live, folder, 12)
        until(lambda: stopped_in(pid, folder, phase), f"it is stopped in {phase}")
        ended = live.wait()
    assert_equal(ended, undisturbed, 3)
    (incident,) = incidents_of(run)
    assert (incident["class"], incident["rank"]) == ("hang", 2)
    stacks = (run / "incidents" / "001" / "faulthandler.txt").read_text()
    assert "most recent call first" in stacks


@wide
def test_a_killed_supervisor_leaves_nobody_and_the_run_goes_on_with_other_ranks(
    several: Several, run: Path, undisturbed: dict[str, Any]
) -> None:
    with several.start(run, several.train(run, "--ranks", "3")) as live:
        reaches(live, rank_folder(run, 2), 22)
        live.kill()
    assert several.end_all() == []
    with several.start(run, ["resume", str(run), "--ranks", "2", "--json"]) as live:
        ended = live.wait()
    assert_equal(ended, undisturbed, 2)
    assert incidents_of(run) == []


@wide
def test_a_stop_is_obeyed_by_all_ranks_and_can_be_resumed(
    several: Several, run: Path, undisturbed: dict[str, Any]
) -> None:
    with several.start(run, several.train(run, "--ranks", "2")) as live:
        reaches(live, rank_folder(run, 1), 12)
        live.send(signal.SIGINT)
        stopped = live.wait()
    assert stopped.code == 130, stopped.err
    assert incidents_of(run) == []
    with several.start(run, ["resume", str(run), "--ranks", "3", "--json"]) as live:
        assert_equal(live.wait(), undisturbed, 3)


def stopped_in(pid: int, folder: Path, phase: str) -> bool:
    """Stops a trainer, and lets it go on if it is somewhere else."""
    os.kill(pid, signal.SIGSTOP)
    flight = read_flight(folder / "flight.bin")
    if flight is not None and flight.phase == phase:
        return True
    os.kill(pid, signal.SIGCONT)
    return False


def test_wrong_usage_says_what_to_do(several: Several, run: Path) -> None:
    with several.start(run, ["train", "--out", str(run), "--nodes", "2"]) as live:
        ended = live.wait()
    assert ended.code == 2 and "--rendezvous HOST:PORT" in ended.err
    assert not run.exists()
