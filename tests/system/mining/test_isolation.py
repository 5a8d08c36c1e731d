"""A job in a process of its own: the same answers, the same errors, and what is said of failures."""

from __future__ import annotations

import itertools
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from tests.kit.sabotaged_miner import BANK, QUERIES, TRUTH, is_right, mine, nothing, run, sabotaged

from ttf.data.sources import VectorRef
from ttf.errors import (
    BadAnswer,
    ConfigError,
    DataMissing,
    ExitCode,
    GaveUp,
    MinerDied,
    MinerFailed,
)
from ttf.mining.job import Isolation, MinerChoice, MiningJob
from ttf.mining.worker_client import MinerWorkers


@pytest.mark.parametrize("isolation", ["process", "none"])
@pytest.mark.parametrize(
    ("miner", "options"), [("exact", {}), ("faiss", {"kind": "hnsw"}), ("hnswlib", {})]
)
def test_a_job_answers_the_same_wherever_it_runs(
    job: MiningJob, miner: str, options: dict[str, Any], isolation: Isolation
) -> None:
    seen: list[tuple[int, int]] = []
    report = run(
        job.with_miner(MinerChoice(name=miner, options=options)),
        isolation,
        progress=lambda done, total: seen.append((done, total)),
    )
    ids, scores = np.load(report.ids_path), np.load(report.scores_path)
    assert (ids == TRUTH).all()
    np.testing.assert_allclose(scores, np.take_along_axis(QUERIES @ BANK.T, ids, 1), rtol=1e-5)
    news = [now for before, now in itertools.pairwise([(0, 30), *seen]) if now != before]
    assert news == [(10, 30), (20, 30), (30, 30)]
    assert (report.queries, report.k, report.bank_rows) == (30, 5, 200)


def test_a_segmentation_fault_is_named_with_its_last_words(job: MiningJob) -> None:
    with pytest.raises(MinerDied) as died:
        run(sabotaged(job, "talk-and-segv", arg="about to touch address zero"))
    text = str(died.value)
    assert "'saboteur' died of SIGSEGV" in text
    assert "about to touch address zero" in text
    assert job.out not in text, "it may be gone when the message is read"
    assert "Fatal Python error: Segmentation fault" in text
    assert died.value.exit_code == ExitCode.GAVE_UP


@pytest.mark.parametrize(
    ("act", "error", "text"),
    [
        ("exit", MinerDied, "ended with exit code 7 without an answer"),
        ("flood-and-segv", MinerDied, "SIGSEGV"),
        ("scribble", BadAnswer, "announces a length|checksum"),
        ("raise", MinerFailed, "raised RuntimeError: what a plugin says"),
    ],
)
def test_every_way_to_fail_is_told_apart(
    job: MiningJob, act: str, error: type[MinerFailed], text: str
) -> None:
    with pytest.raises(error, match=text) as failed:
        run(sabotaged(job, act, arg="7"))
    assert failed.value.miner == "saboteur"
    assert len(str(failed.value)) < 4000


class Stop(Exception):
    """What the caller of a job raises to end it."""


@pytest.mark.parametrize("when", ["search", "build"])
def test_a_stop_is_heard_while_the_miner_is_silent(job: MiningJob, when: str) -> None:
    """The worker is stopped within its search, or within its build, where it says nothing."""
    begun = Path(job.out).with_name("begun")
    silent = sabotaged(job, "hang", when=when, counter=str(begun))
    figures = set()

    def progress(done: int, total: int) -> None:
        figures.add((done, total))
        if begun.exists():
            raise Stop

    with pytest.raises(Stop):
        run(silent, progress=progress)
    assert figures == {(0, 30)}


def test_what_the_callers_progress_raises_is_not_the_miners_fault(job: MiningJob) -> None:
    def progress(done: int, total: int) -> None:
        raise Stop

    with pytest.raises(Stop):
        run(sabotaged(job, "answer"), isolation="none", progress=progress)


@pytest.mark.parametrize(
    ("act", "arg", "words"),
    [("talk-and-segv", "about to", "about to"), ("flood-and-segv", "5000", "bytes left out")],
)
def test_what_a_dead_miner_wrote_is_kept_where_the_message_says(
    job: MiningJob, tmp_path: Path, act: str, arg: str, words: str
) -> None:
    logs = tmp_path / "run" / "logs"
    for number in (1, 2):
        with pytest.raises(MinerDied) as died:
            run(sabotaged(job, act, arg=arg), logs=logs)
        kept = logs / f"miner-{number}.stderr.txt"
        assert str(kept) in str(died.value)
        assert words in kept.read_text()
        assert kept.stat().st_size < 400_000


def test_logs_that_cannot_be_kept_do_not_hide_the_death(job: MiningJob, tmp_path: Path) -> None:
    """Its stacks go to standard error then."""
    (tmp_path / "file").touch()
    said: list[str] = []
    with pytest.raises(
        MinerDied, match="SIGSEGV.*could not save its standard error in .*Not a directory"
    ) as died:
        run(sabotaged(job, "segv"), logs=tmp_path / "file" / "logs", say=said.append)
    assert "Fatal Python error: Segmentation fault" in str(died.value)
    assert "cannot save the stacks" in said[0]


def test_a_fresh_process_gets_a_second_chance(job: MiningJob, tmp_path: Path) -> None:
    said: list[str] = []
    counter = str(tmp_path / "count")
    report = mine(sabotaged(job, "segv", times=1, counter=counter), ["exact"], said.append)
    assert report.miner == "saboteur"
    assert len(report.deaths) == 1
    assert "MINER FAILED (saboteur, attempt 1)" in said[0]
    assert "ttf tries once more" in said[0]
    assert is_right(report)


def test_the_next_miner_takes_over_aloud(job: MiningJob) -> None:
    said: list[str] = []
    report = mine(sabotaged(job, "segv"), ["faiss", "exact"], said.append)
    assert report.miner == "faiss"
    assert len(report.deaths) == 2
    assert "MINER REPLACED: 'faiss' takes over from 'saboteur'." in said
    assert is_right(report)


@pytest.mark.parametrize("isolation", ["process", "none"])
def test_when_none_is_left_the_run_gives_up(job: MiningJob, isolation: Isolation) -> None:
    with pytest.raises(GaveUp, match=r"All miners failed \(saboteur\)") as gave_up:
        mine(sabotaged(job, "raise"), [], isolation=isolation)
    assert gave_up.value.exit_code == ExitCode.GAVE_UP
    assert "--miner exact" in gave_up.value.hint
    assert "doctor" not in gave_up.value.hint


def test_a_second_attempt_continues_after_the_durable_chunks(
    job: MiningJob, tmp_path: Path
) -> None:
    """The first process dies in its second chunk of three."""
    dying = sabotaged(job, "segv", first=1, times=1, counter=str(tmp_path / "count"))
    with pytest.raises(MinerDied):
        run(dying)
    report = run(dying)
    assert report.continued_from == 10
    assert is_right(report)
    assert run(dying).continued_from == 30


def test_errors_of_the_data_are_not_the_miners(job: MiningJob) -> None:
    with pytest.raises(DataMissing, match="no such file"):
        run(replace(job, bank=VectorRef("/nowhere/bank.npz", "vectors")))
    wrong = job.with_miner(MinerChoice(name="faiss", options={"kind": "tree"}))
    with pytest.raises(ConfigError, match="kind"):
        run(wrong)


@pytest.mark.skipif(sys.platform != "linux", reason="looks at what is mapped by /proc")
@pytest.mark.parametrize(
    ("miner", "loads"), [("faiss", False), ("hnswlib", False), ("exact", True)]
)
def test_the_worker_never_loads_torch_unless_its_miner_does(
    job: MiningJob, miner: str, loads: bool
) -> None:
    with MinerWorkers(isolation="process", say=print) as workers:
        workers.run(job.with_miner(MinerChoice(name=miner)), 60, nothing)
        libraries = {Path(mapped.path).name for mapped in psutil.Process(workers.pid).memory_maps()}
    assert any("libtorch" in name for name in libraries) == loads


def test_the_unsafe_openmp_switch_does_not_reach_the_worker(
    job: MiningJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KMP_DUPLICATE_LIB_OK", "TRUE")
    job = replace(job, context=replace(job.context, threads=3))
    with MinerWorkers(isolation="process", say=print) as workers:
        workers.run(job, 60, nothing)
        ours = psutil.Process(workers.pid).environ()
    assert "KMP_DUPLICATE_LIB_OK" not in ours
    assert ours["OMP_NUM_THREADS"] == ours["OPENBLAS_NUM_THREADS"] == "3"
