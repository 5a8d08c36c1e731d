"""Nobody outlives the trainer: not a worker in native code, nor what it started, nor its litter."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import pytest
from tests.conftest import wait_until
from tests.kit.sabotaged_miner import (
    PRELUDE,
    Deaths,
    ask,
    family,
    is_right,
    run,
    sabotaged,
)

from ttf.errors import MinerFailed, MinerTimedOut
from ttf.mining.job import MiningJob
from ttf.mining.worker_client import MinerWorkers

MINES = "MinerWorkers(isolation='process', say=print).run(job, 600, lambda done, total: None)"
WITHIN_S = 30


@contextmanager
def trainer(job: MiningJob) -> Iterator[subprocess.Popen[bytes]]:
    """A process that mines; ended in any case."""
    parent = subprocess.Popen([sys.executable, "-c", PRELUDE + MINES, json.dumps(asdict(job))])
    try:
        yield parent
    finally:
        parent.kill()
        parent.wait()


def others(than: int) -> list[str]:
    return [f"{p.pid} {p.name()}" for p in family() if p.pid != than]


@pytest.mark.parametrize("act", ["hang", "children-then-hang-in-c"])
def test_all_end_with_a_trainer_that_is_killed(job: MiningJob, tmp_path: Path, act: str) -> None:
    """Also while native code holds the interpreter lock; also a grandchild in its own session."""
    begun = tmp_path / "begun"
    counted = {"counter": str(begun)} if act == "hang" else {"arg": str(begun)}
    with trainer(sabotaged(job, act, **counted)) as parent:
        wait_until(begun.exists, 30)
        assert len(others(parent.pid)) >= 2
        time.sleep(0.1)
        parent.kill()
        parent.wait()
        wait_until(lambda: not family(), WITHIN_S)


def test_a_worker_killed_from_outside_takes_what_it_started_with_it(
    job: MiningJob, tmp_path: Path
) -> None:
    begun = tmp_path / "begun"
    deaths = Deaths()

    def kill_it(done: int, total: int) -> None:
        if begun.exists() and workers.pid is not None:
            os.kill(workers.pid, signal.SIGKILL)

    hanging = sabotaged(job, "children-then-hang-in-c", arg=str(begun))
    with (
        MinerWorkers(isolation="process", say=print, on_death=deaths) as workers,
        pytest.raises(MinerFailed),
    ):
        workers.run(hanging, 60, kill_it)
    assert deaths.signals == [signal.SIGKILL]
    assert deaths.all[0].killed_by_us == ""
    assert not family()


def test_what_a_hanging_worker_started_ends_at_the_deadline(job: MiningJob, tmp_path: Path) -> None:
    hanging = sabotaged(job, "children-then-hang-in-c", arg=str(tmp_path / "begun"))
    with pytest.raises(MinerTimedOut):
        run(hanging, deadline_s=1.5)
    assert not family()


def test_a_fork_that_holds_all_pipes_of_its_worker_holds_up_nobody(
    job: MiningJob, tmp_path: Path
) -> None:
    """The worker dies; the end of its pipes never comes, its death is noticed all the same."""
    deaths = Deaths()
    with MinerWorkers(isolation="process", say=print, on_death=deaths) as workers:
        ask(workers, sabotaged(job, "fork", times=1, counter=str(tmp_path / "count")))
        dying = sabotaged(job, "kill", times=1, counter=str(tmp_path / "killed"))
        assert is_right(ask(workers, dying))
    assert deaths.signals == [signal.SIGKILL]
    assert not family()


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="there is no /dev/shm here")
def test_the_mark_that_openmp_leaves_in_shared_memory_is_removed(job: MiningJob) -> None:
    with MinerWorkers(isolation="process", say=print) as workers:
        ask(workers, sabotaged(job, "answer"))
        ours = Path(f"/dev/shm/__KMP_REGISTERED_LIB_{workers.pid}_{os.getuid()}")
        ours.touch()
    assert not ours.exists()
