"""A worker that lives from round to round: what it keeps, and when it is replaced or given up."""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import psutil
import pytest
from tests.conftest import wait_until
from tests.kit.sabotaged_miner import BANK, TRUTH, ask, family, is_right, sabotaged

from ttf.mining.job import Isolation, MinerChoice, MiningJob
from ttf.mining.worker_client import MinerWorkers
from ttf.process.bounded_output import HEAD_BYTES, TAIL_BYTES, BoundedOutput

Round = Callable[..., MiningJob]


@pytest.fixture
def rounds(job: MiningJob, tmp_path: Path) -> Round:
    """The same job with an index, as the next round of a run would ask it."""
    number = 0

    def next_round(**changes: object) -> MiningJob:
        nonlocal number
        number += 1
        indexed = job.with_miner(MinerChoice(name="hnswlib"))
        indexed = replace(indexed, out=str(tmp_path / str(number)), cache=str(tmp_path / "cache"))
        return replace(indexed, **changes)  # type: ignore[arg-type]

    return next_round


def built(tmp_path: Path) -> int:
    return len(list((tmp_path / "cache" / "index").glob("*/manifest.json")))


@pytest.mark.parametrize("isolation", ["process", "none"])
def test_the_index_stays_ready_for_the_next_round(
    rounds: Round, tmp_path: Path, isolation: Isolation
) -> None:
    with MinerWorkers(isolation=isolation, say=print) as workers:
        first = ask(workers, rounds())
        kept = workers.pid
        # What is on disk is not needed again: a warm index is not read a second time.
        for file in (tmp_path / "cache" / "index").glob("*/*"):
            file.write_bytes(b"damaged")
        second = ask(workers, rounds())
        assert workers.pid == kept
        assert (kept is None) == (isolation == "none")
    assert first.index is not None
    assert second.index is not None
    assert (first.index.origin, second.index.origin) == ("built", "reused")
    assert (first.build_s > 0, second.build_s) == (True, 0.0)
    assert is_right(first)
    assert is_right(second)


@pytest.mark.parametrize("isolation", ["process", "none"])
def test_released_memory_is_had_back_and_the_next_round_starts_anew(
    rounds: Round, isolation: Isolation
) -> None:
    with MinerWorkers(isolation=isolation, say=print) as workers:
        ask(workers, rounds())
        before = workers.pid
        workers.release()
        assert workers.pid is None
        assert not family()
        again = ask(workers, rounds())
        assert is_right(again)
        assert again.index is not None
        assert again.index.origin == "reused", "from the cache"
        assert again.build_s > 0
        assert isolation == "none" or workers.pid != before


@pytest.mark.parametrize("isolation", ["process", "none"])
def test_a_bank_that_was_written_anew_is_indexed_anew(
    rounds: Round, tmp_path: Path, isolation: Isolation
) -> None:
    with MinerWorkers(isolation=isolation, say=print) as workers:
        ask(workers, rounds())
        np.savez(tmp_path / "other.npz", vectors=BANK[::-1])
        (tmp_path / "other.npz").replace(tmp_path / "bank.npz")
        turned = ask(workers, rounds())
    assert (np.load(turned.ids_path) == 199 - TRUTH).all()
    assert built(tmp_path) == 2


def test_an_index_of_a_bank_that_is_thrown_away_is_not_kept(rounds: Round) -> None:
    with MinerWorkers(isolation="process", say=print) as workers:
        reports = [ask(workers, rounds(cache=None)) for _ in range(2)]
        assert workers.pid is not None
        open_files = [Path(f.path).name for f in psutil.Process(workers.pid).open_files()]
    assert all(report.build_s > 0 for report in reports)
    assert "bank.npz" not in open_files


def test_other_options_are_another_index_in_the_same_worker(rounds: Round, tmp_path: Path) -> None:
    with MinerWorkers(isolation="process", say=print) as workers:
        ask(workers, rounds())
        before = workers.pid
        ask(workers, rounds(options={"M": 8}))
        assert workers.pid == before
    assert built(tmp_path) == 2


def test_another_miner_or_number_of_threads_is_another_worker(rounds: Round) -> None:
    """Threads are fixed before a library loads."""
    pids = []
    with MinerWorkers(isolation="process", say=print) as workers:
        for changes in ({}, {"miner": "faiss"}, {"miner": "faiss", "threads": 2}):
            threads = int(str(changes.pop("threads", 1)))
            asked = rounds(**changes)
            ask(workers, replace(asked, context=replace(asked.context, threads=threads)))
            assert workers.pid is not None
            pids.append(workers.pid)
            variables = psutil.Process(workers.pid).environ()
            assert variables["OMP_NUM_THREADS"] == str(threads)
    assert len(set(pids)) == 3


def test_nothing_is_left_in_or_beside_the_folders_of_the_job(
    rounds: Round, job: MiningJob, tmp_path: Path
) -> None:
    logs = tmp_path / "logs"
    with MinerWorkers(isolation="process", say=print, logs=logs) as workers:
        report = ask(workers, rounds())
    assert sorted(p.name for p in Path(report.ids_path).parent.iterdir()) == [
        "blocks.bin",
        "ids.npy",
        "scores.npy",
    ]
    assert not list(logs.iterdir()), "no stacks, no file"


def test_scratch_of_a_killed_worker_lies_within_the_jobs_own_folder(
    job: MiningJob, tmp_path: Path
) -> None:
    """So that it goes with the folder; and a later attempt removes it first."""
    building = Path(job.out) / ".tmp-build"

    class Enough(Exception):
        pass

    def progress(done: int, total: int) -> None:
        if building.exists():
            raise Enough

    with MinerWorkers(isolation="process", say=print) as workers:
        with pytest.raises(Enough):
            workers.run(sabotaged(job, "hang", when="build"), 60, progress)
        assert building.exists()
        assert is_right(ask(workers, sabotaged(job, "answer")))
    assert not building.exists()


def test_who_forgets_to_close_leaves_no_worker(job: MiningJob) -> None:
    workers = MinerWorkers(isolation="process", say=print)
    ask(workers, sabotaged(job, "answer"))
    assert family()
    del workers
    gc.collect()
    wait_until(lambda: not family(), 5)


def test_closing_twice_and_releasing_nothing_are_harmless(job: MiningJob) -> None:
    workers = MinerWorkers(isolation="process", say=print)
    workers.release()
    ask(workers, sabotaged(job, "answer"))
    for _ in range(2):
        workers.close()
    assert not family()


def test_of_any_amount_of_output_beginning_and_end_are_kept() -> None:
    output = BoundedOutput()
    output.add(b"first\n")
    for _ in range(5000):
        output.add(b"x" * 999 + b"\n")
    output.add(b"last\n")
    data = output.data()
    assert data.startswith(b"first\n")
    assert data.endswith(b"last\n")
    assert len(data) < HEAD_BYTES + TAIL_BYTES + 100
    assert f"[{output.num_bytes - HEAD_BYTES - TAIL_BYTES:,} bytes left out]" in output.text()


def test_little_output_is_kept_as_it_is() -> None:
    output = BoundedOutput()
    for _ in range(100):
        output.add(b"\xff line\n")
    assert output.data() == b"\xff line\n" * 100
