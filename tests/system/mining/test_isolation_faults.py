"""Real faults at every moment of a worker's life: each ends the worker, none ends the trainer."""

from __future__ import annotations

import os
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import psutil
import pytest
from tests.conftest import wait_until
from tests.kit.sabotaged_miner import (
    Deaths,
    ask,
    is_right,
    mine,
    nothing,
    run,
    sabotaged,
)
from tests.kit.widely import CHAOS, wide

from ttf.errors import BadAnswer, BadData, GaveUp, MinerDied, MinerFailed, MinerTimedOut
from ttf.incidents.classify import classify
from ttf.mining import worker_client
from ttf.mining.job import MiningJob
from ttf.mining.worker_client import MinerWorkers

SIGNALS = {
    "kill": signal.SIGKILL,
    "segv": signal.SIGSEGV,
    "abrt": signal.SIGABRT,
    "bus": signal.SIGBUS,
}


STAGES = ("create", "build", "search")
STRUCK = (
    [(act, when) for act in SIGNALS for when in STAGES]
    if CHAOS
    else [*(("kill", when) for when in STAGES), *zip(("segv", "abrt", "bus"), STAGES, strict=True)]
)
"""Each stage, each signal; every pair widely."""


@pytest.mark.parametrize(("act", "when"), STRUCK)
def test_a_signal_at_any_stage_costs_a_worker_and_nothing_else(
    job: MiningJob, tmp_path: Path, act: str, when: str
) -> None:
    deaths = Deaths()
    dying = sabotaged(job, act, when=when, times=1, counter=str(tmp_path / "count"))
    report = mine(dying, on_death=deaths, logs=tmp_path / "logs")
    assert is_right(report)
    assert report.miner == "saboteur"
    (death,) = deaths.all
    assert (death.process, death.signal, death.killed_by_us) == ("miner", SIGNALS[act], "")
    assert death.settings["miner.name"] == "saboteur"
    assert death.settings["miner.isolation"] == "process"
    assert deaths.remedies == ["ttf repeats the search in a new process."]
    if act != "kill":
        assert "saboteur_miner.py" in death.faulthandler
    assert not list((tmp_path / "logs").glob("*.stderr.txt")), "whoever was told keeps it"


def test_a_worker_may_die_at_each_of_many_requests(job: MiningJob, tmp_path: Path) -> None:
    """Six searches in two rounds: killed at each of them in turn (at the first, the last, and between
    the rounds), the answers stay right."""
    for at in range(6) if CHAOS else (0, 3, 5):
        deaths = Deaths()
        dying = sabotaged(job, "kill", first=at, times=1, counter=str(tmp_path / f"count-{at}"))
        with MinerWorkers(isolation="process", say=print, on_death=deaths) as workers:
            for number in range(2):
                out = str(tmp_path / f"{at}-{number}")
                assert is_right(ask(workers, replace(dying, out=out, cache=str(tmp_path))))
        assert deaths.signals == [signal.SIGKILL]


@pytest.mark.parametrize("act", ["cut-report", "half-a-chunk"])
def test_a_kill_in_the_middle_of_a_result_leaves_no_torn_one(
    job: MiningJob, tmp_path: Path, act: str
) -> None:
    deaths = Deaths()
    dying = sabotaged(job, act, when="create", times=1, counter=str(tmp_path / "count"))
    assert is_right(mine(dying, on_death=deaths))
    assert deaths.signals == [signal.SIGKILL]
    assert deaths.all[0].killed_by_us == ""


@pytest.mark.parametrize(
    ("act", "when"),
    [
        pytest.param(act, when, marks=wide if (act == "exit") == (when == "build") else ())
        for act in ("exit", "leave")
        for when in STAGES
    ],
)
def test_leaving_without_an_answer_is_no_success(job: MiningJob, act: str, when: str) -> None:
    deaths = Deaths()
    with pytest.raises(MinerDied, match="ended with exit code 0 without an answer"):
        run(sabotaged(job, act, when=when), on_death=deaths)
    assert (deaths.all[0].exit_code, classify(deaths.all[0]).name) == (0, "vanished")


@pytest.mark.parametrize("act", ["hang", "hang-in-c", "stop"])
def test_a_hang_ends_at_the_deadline_with_its_stacks(
    job: MiningJob, tmp_path: Path, act: str
) -> None:
    """Asleep; in native code that holds the interpreter lock; stopped by a signal."""
    deaths, beats, reached = Deaths(), list[float](), tmp_path / "count"
    hanging = sabotaged(job, act, when="search", counter=str(reached))

    def beat() -> None:
        if not beats:  # so that it hangs there, and not on its way, when its time is over
            wait_until(reached.exists)
        beats.append(time.monotonic())

    with pytest.raises(MinerTimedOut, match="did not finish within 2 s"):
        run(hanging, deadline_s=2, logs=tmp_path / "logs", on_death=deaths, beat=beat)
    (death,) = deaths.all
    assert (death.killed_by_us, classify(death).name) == ("hang", "hang")
    assert "saboteur_miner.py" in death.faulthandler
    assert len(beats) >= 6, "signs of life while we waited"


SLOW_START = """
import pathlib, time
while not pathlib.Path({gate!r}).exists():
    time.sleep(0.01)
"""


def test_a_start_that_takes_longer_than_the_deadline_is_not_the_miners_fault(
    job: MiningJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its interpreter waits at a gate, which opens when the deadline has been over for long."""
    gate, deadline_s = tmp_path / "gate", 2.0
    (tmp_path / "sitecustomize.py").write_text(SLOW_START.format(gate=str(gate)))
    monkeypatch.syspath_prepend(tmp_path)
    began = time.monotonic()

    def beat() -> None:
        if time.monotonic() > began + 2 * deadline_s:
            gate.touch()

    assert is_right(run(sabotaged(job, "answer"), deadline_s=deadline_s, beat=beat))
    assert gate.exists()


def test_a_start_that_never_ends_is_ended(
    job: MiningJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Too early to ask for stacks: the request itself would end it."""
    monkeypatch.setattr("ttf.process.conversation.START_S", 1.0)
    (tmp_path / "sitecustomize.py").write_text(SLOW_START.format(gate=str(tmp_path / "never")))
    monkeypatch.syspath_prepend(tmp_path)
    deaths = Deaths()
    with pytest.raises(MinerTimedOut, match="did not start within 1 s, and ttf stopped it"):
        run(sabotaged(job, "answer"), deadline_s=0.1, on_death=deaths)
    assert (deaths.all[0].killed_by_us, classify(deaths.all[0]).name) == ("hang", "hang")


def test_a_flood_of_standard_error_neither_hangs_nor_fills_the_disk(
    job: MiningJob, tmp_path: Path
) -> None:
    deaths = Deaths()
    with MinerWorkers(
        isolation="process", say=print, logs=tmp_path / "logs", on_death=deaths
    ) as workers:
        flooding = sabotaged(job, "flood", arg="50000", times=1, counter=str(tmp_path / "count"))
        assert is_right(workers.run(flooding, 60, nothing))
        dying = sabotaged(job, "flood-and-segv", arg="50000")
        with pytest.raises(MinerDied, match="SIGSEGV"):
            workers.run(dying, 60, nothing)
    written = sum(file.stat().st_size for file in tmp_path.rglob("*") if file.is_file())
    assert written < 200_000
    assert 300_000 < len(deaths.all[0].raw_stderr) < 400_000
    assert "bytes left out" in deaths.all[0].stderr


GARBAGE: dict[str, list[tuple[str, str]]] = {
    "no messages": [
        ("scribble", ""),
        ("no-object", "{not json"),
        ("message", "{'surprise': 1}"),
        ("message", "{'answer': {}}"),
        ("message", "{'error': {'known': True, 'class': 'BadData', 'message': 1, 'fields': 3}}"),
        ("message", "{'progress': [5, 3]}"),
        ("message", "{'say': 7}"),
        ("unasked", ""),
    ],
    "reports": [
        ("report", "{'k': 3}"),
        ("report", "{'ids_path': '/etc/passwd'}"),
    ],
    "files": [
        ("overwrite", "ids.npy"),
        ("truncate", "ids.npy"),
        ("remove", "blocks.bin"),
    ],
    "answers": [
        ("lie", "{'id': 200}"),
        ("lie", "{'id': 0}"),
        ("lie", "{'score': float('nan')}"),
    ],
}
"""Of each kind what is answered by lines of its own."""
MORE_GARBAGE: dict[str, list[tuple[str, str]]] = {
    "no messages": [
        ("no-object", "[1, 2, 3]"),
        ("message", "{}"),
        ("message", "{'answer': [1]}"),
        ("message", "{'error': {}}"),
    ],
    "reports": [
        ("report", "{'bank_rows': 10**9}"),
        ("report", "{'miner': 'exact'}"),
        ("report", "{'key': 'another'}"),
        ("report", "{'search_s': float('nan')}"),
    ],
    "files": [("overwrite", "scores.npy"), ("remove", "ids.npy")],
    "answers": [("lie", "{'id': -1}")],
}
if os.environ.get("TTF_CHAOS"):
    GARBAGE = {kind: [*acts, *MORE_GARBAGE[kind]] for kind, acts in GARBAGE.items()}


@pytest.mark.parametrize("kind", GARBAGE)
def test_garbage_is_refused_and_a_fresh_worker_asked(
    job: MiningJob, tmp_path: Path, kind: str
) -> None:
    """The worker that was right after one is the one that the next one spoils."""
    deaths = Deaths()
    with MinerWorkers(isolation="process", say=print, on_death=deaths) as workers:
        for number, (act, arg) in enumerate(GARBAGE[kind]):
            folder = tmp_path / str(number)
            folder.mkdir()
            told = {"arg": arg, "times": 1, "counter": str(folder / "count")}
            when = "search" if act == "scribble" else "create"
            lying = sabotaged(replace(job, out=str(folder / "out")), act, when=when, **told)
            report = ask(workers, lying)
            assert is_right(report), (act, arg)
            assert len(deaths.all) == number + 1, (act, arg)
            assert deaths.all[-1].killed_by_us == "garbage" and deaths.all[-1].reason, (act, arg)
            if act == "lie":
                assert report.continued_from == 0, (
                    "an answer that was not believed is not continued"
                )


def test_a_miner_that_only_lies_is_replaced(job: MiningJob) -> None:
    deaths = Deaths()
    lying = sabotaged(job, "lie", arg="{'id': 200}", when="create")
    with pytest.raises(BadAnswer, match="row 200 for query 9 at rank 4"):
        run(lying)
    report = mine(lying, ["faiss"], on_death=deaths)
    assert (report.miner, is_right(report), len(deaths.all)) == ("faiss", True, 2)
    assert deaths.remedies[-1] == "The miner 'faiss' takes over."


def test_a_worker_that_closes_its_pipes_and_lingers_is_ended(
    job: MiningJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ttf.mining import worker_client

    monkeypatch.setattr(worker_client, "_GRACE_S", 0.2)
    deaths = Deaths()
    with pytest.raises(BadAnswer, match="closed its pipe but did not end"):
        run(sabotaged(job, "close-pipes"), on_death=deaths)
    assert deaths.all[0].killed_by_us == "garbage"


@pytest.mark.skipif(sys.platform != "linux", reason="waits for the death by /proc")
def test_an_idle_worker_that_dies_is_replaced_and_told_of(job: MiningJob, tmp_path: Path) -> None:
    deaths, said = Deaths(), list[str]()
    with MinerWorkers(isolation="process", say=said.append, on_death=deaths) as workers:
        first = sabotaged(job, "answer")
        assert is_right(ask(workers, first))
        assert workers.pid is not None
        before = workers.pid
        os.kill(before, signal.SIGKILL)
        # A zombie once all its threads are gone; its first thread may be one before.
        wait_until(lambda: not list(Path(f"/proc/{before}/task").iterdir())[1:])
        wait_until(lambda: psutil.Process(before).status() == psutil.STATUS_ZOMBIE)
        again = ask(workers, replace(first, out=str(tmp_path / "again")))
        assert (is_right(again), again.deaths) == (True, ()), "no request was lost with it"
        assert workers.pid != before
    assert deaths.signals == [signal.SIGKILL]
    assert "idle process died of SIGKILL" in said[0]


@pytest.mark.parametrize("isolation", ["process", "none"])
def test_what_a_miner_raises_becomes_an_incident_with_its_traceback(
    job: MiningJob, isolation: Any
) -> None:
    deaths = Deaths()
    with pytest.raises(MinerFailed, match="raised RuntimeError: what a plugin says"):
        run(sabotaged(job, "raise"), isolation=isolation, on_death=deaths)
    (death,) = deaths.all
    assert death.error is not None
    assert "saboteur_miner.py" in death.error["traceback"]
    assert classify(death).name == "python-error"
    assert death.settings["miner.isolation"] == isolation


def test_a_bank_that_is_cut_while_it_is_read_is_named(job: MiningJob, tmp_path: Path) -> None:
    """The worker dies of SIGBUS; the fresh one finds the damage, which is not the miner's."""
    bank = tmp_path / "large.npz"
    np.savez(bank, vectors=np.ones((5000, 8), np.float32))
    cutting = replace(
        sabotaged(job, "truncate-bank", arg=str(bank)), bank=replace(job.bank, uri=str(bank))
    )
    deaths = Deaths()
    with pytest.raises(BadData, match=r"large\.npz"):
        mine(cutting, ["exact"], on_death=deaths)
    (death,) = deaths.all
    assert death.signal == signal.SIGBUS
    (change,) = death.changed_files
    assert (change.path, change.cut) == (str(bank), True)
    assert classify(death).name == "bus-error"


def test_time_in_which_the_machine_slept_does_not_count(job: MiningJob, tmp_path: Path) -> None:
    """A signal handler that takes nine seconds holds up one wait, as a suspended laptop would."""
    go = tmp_path / "go"

    def sleep_over(signum: int, frame: FrameType | None) -> None:
        time.sleep(9)
        go.touch()

    before = signal.signal(signal.SIGALRM, sleep_over)
    try:
        with MinerWorkers(isolation="process", say=print) as workers:
            ask(workers, sabotaged(job, "answer"))  # starting takes time as well
            signal.setitimer(signal.ITIMER_REAL, 0.6)
            waiting = sabotaged(job, "wait-for", arg=str(go))
            assert is_right(workers.run(waiting, 8, nothing))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_no_process_can_be_started_is_a_failed_attempt(
    job: MiningJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.executable", "/nowhere/python")
    deaths = Deaths()
    with pytest.raises(GaveUp, match="could not start a process"):
        mine(sabotaged(job, "answer"), on_death=deaths)
    assert len(deaths.all) == worker_client.LAST_ATTEMPTS
