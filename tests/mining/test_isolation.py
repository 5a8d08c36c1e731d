"""Miners that die, hang, lie and linger: the trainer hears of it and goes on."""

from __future__ import annotations

import contextlib
import itertools
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from tests.conftest import FakeDistribution, wait_until

from ttf.contracts import MinerContext, Progress
from ttf.data.refs import VectorRef
from ttf.errors import (
    BadAnswer,
    ConfigError,
    DataMissing,
    ExitCode,
    GaveUp,
    MinerDied,
    MinerFailed,
    MinerTimedOut,
)
from ttf.mining.job import Isolation, MinerChoice, MiningJob, MiningReport
from ttf.mining.process import environment
from ttf.mining.workers import MinerWorkers

SABOTEUR = '''
"""A miner that does on search what its option says."""
import ctypes, importlib.util, os, sys, time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from ttf import hookimpl, option
from ttf.contracts import Availability, MinerCost, MinerTraits


@dataclass(frozen=True, kw_only=True)
class Options:
    act: str = option("answer", "what to do")
    times: int = option(99, "how many searches do it")
    counter: str = option("", "file that counts the searches")


class Saboteur:
    def __init__(self, options):
        self.options = options

    def build(self, source, workdir):
        self.rows = source.shape[0]
        if self.options.act == "build-forever":
            Path(self.options.counter).touch()
            time.sleep(600)

    def search(self, queries, k):
        import numpy as np

        ids = np.tile(np.arange(k), (len(queries), 1))
        scores = np.ones(ids.shape, np.float32)
        if not self._again():
            return ids, scores
        match self.options.act:
            case "segfault":
                print("about to touch address zero", file=sys.stderr, flush=True)
                ctypes.string_at(0)
            case "exit":
                os._exit(0)
            case "hang":
                time.sleep(600)
            case "segfault-later" if self.searches == 0:
                ctypes.string_at(0)
            case "flood":
                sys.stderr.write("x" * 5_000_000)
                ctypes.string_at(0)
            case "scribble":
                for fd in range(3, 20):
                    try:
                        os.write(fd, b"this is no frame, but long enough to look like one")
                    except OSError:
                        continue
            case "lie":
                ids[0, 0] = self.rows + 7
            case "raise":
                raise RuntimeError("what libraries say")
            case "orphan":
                os.fork() or time.sleep(600)
        return ids, scores

    def _again(self):
        if not self.options.counter:
            return self.options.act != "answer"
        path = Path(self.options.counter)
        seen = int(path.read_text()) if path.exists() else 0
        path.write_text(str(seen + 1))
        self.searches = seen
        return seen < self.options.times

    def close(self):
        pass


class Factory:
    name = "saboteur"
    options_type = Options

    def availability(self):
        return Availability(ok=True)

    def traits(self, options, context):
        return MinerTraits(exact=False, deterministic=True, has_index=False)

    def estimate(self, rows, dim, queries, k, options, context):
        return MinerCost(build_s=0, search_s=0, anon_bytes=0, disk_bytes=0)

    def create(self, options, context):
        return Saboteur(options)


@hookimpl
def ttf_miner(name):
    return Factory() if name == "saboteur" else None
'''

BANK = np.random.default_rng(0).standard_normal((200, 8)).astype(np.float32)


@pytest.fixture
def job(
    tmp_path: Path, fake_plugins: FakeDistribution, monkeypatch: pytest.MonkeyPatch
) -> MiningJob:
    fake_plugins.add("saboteur-dist", {"miner.saboteur": "saboteur_miner"})
    fake_plugins.module("saboteur_miner", SABOTEUR)
    monkeypatch.setenv("PYTHONPATH", str(fake_plugins.folder))
    np.savez(tmp_path / "bank.npz", vectors=BANK)
    np.save(tmp_path / "queries.npy", BANK[:30])
    return MiningJob(
        bank=VectorRef(str(tmp_path / "bank.npz"), "vectors"),
        queries=str(tmp_path / "queries.npy"),
        k=5,
        miner="exact",
        context=MinerContext(threads=1, seed=0, deterministic=True, budget_bytes=1 << 26),
        out=str(tmp_path / "found"),
        chunk=10,
    )


def sabotaged(job: MiningJob, act: str, **options: Any) -> MiningJob:
    return job.with_miner(MinerChoice(name="saboteur", options={"act": act, **options}))


def run(
    job: MiningJob,
    isolation: Isolation = "process",
    deadline_s: float = 60,
    progress: Progress = lambda done, total: None,
    **given: Any,
) -> MiningReport:
    """One attempt, in a process of its own that ends with it."""
    with MinerWorkers(isolation=isolation, **{"say": print, **given}) as workers:
        return workers.run(job, deadline_s, progress)


def workers() -> list[psutil.Process]:
    """Living processes that this test's plugins can be imported in, ourselves excepted."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            same = process.environ().get("PYTHONPATH") == os.environ["PYTHONPATH"]
            if same and process.pid != os.getpid() and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def mine(
    job: MiningJob, fallback: Sequence[str], say: Callable[[str], None] = print, **given: Any
) -> MiningReport:
    with MinerWorkers(say=say, **{"isolation": "process", **given}) as workers:
        return workers.mine(
            job,
            [MinerChoice(name=name) for name in fallback],
            deadline_s=lambda job: 60,
            progress=lambda done, total: None,
        )


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
    assert (ids == np.argsort(-(BANK[:30] @ BANK.T), axis=1, kind="stable")[:, :5]).all()
    np.testing.assert_allclose(scores, np.take_along_axis(BANK[:30] @ BANK.T, ids, 1), rtol=1e-5)
    news = [now for before, now in itertools.pairwise([(0, 30), *seen]) if now != before]
    assert news == [(10, 30), (20, 30), (30, 30)]
    assert (report.queries, report.k, report.bank_rows) == (30, 5, 200)


def test_a_segmentation_fault_is_named_with_its_last_words(job: MiningJob) -> None:
    with pytest.raises(MinerDied) as died:
        run(sabotaged(job, "segfault"))
    text = str(died.value)
    assert "'saboteur' died of SIGSEGV" in text
    assert "about to touch address zero" in text
    assert job.out not in text, "it may be gone when the message is read"
    assert "Fatal Python error: Segmentation fault" in text
    assert died.value.exit_code == ExitCode.GAVE_UP


@pytest.mark.parametrize(
    ("act", "error", "text"),
    [
        ("exit", MinerDied, "ended with exit code 0 without an answer"),
        ("flood", MinerDied, "SIGSEGV"),
        ("scribble", BadAnswer, "was announced|checksum"),
        ("lie", BadAnswer, "query 0 with row 207"),
        ("raise", MinerFailed, "raised RuntimeError: what libraries say"),
    ],
)
def test_every_way_to_fail_is_told_apart(
    job: MiningJob, act: str, error: type[MinerFailed], text: str
) -> None:
    with pytest.raises(error, match=text) as failed:
        run(sabotaged(job, act))
    assert failed.value.miner == "saboteur"
    assert len(str(failed.value)) < 4000


def test_a_hang_ends_at_the_deadline_and_nobody_is_left(job: MiningJob) -> None:
    with pytest.raises(MinerTimedOut, match="did not finish within 2 s"):
        run(sabotaged(job, "hang"), deadline_s=2)


class Stop(Exception):
    """What the caller of a job raises to end it."""


@pytest.mark.parametrize("act", ["hang", "build-forever"])
def test_a_stop_is_heard_while_the_miner_is_silent(job: MiningJob, act: str) -> None:
    """The worker is stopped within its search, or within its build, where it says nothing."""
    building = Path(job.out).with_name("building")
    silent = sabotaged(job, act, counter=str(building) if act == "build-forever" else "")
    begun = building if act == "build-forever" else Path(job.out) / "progress.json"
    figures = set()

    def progress(done: int, total: int) -> None:
        figures.add((done, total))
        if begun.exists():
            raise Stop

    with pytest.raises(Stop):
        run(silent, progress=progress)
    assert figures == {(0, 30)}


@pytest.mark.parametrize(
    ("act", "deadline_s", "words"),
    [("segfault", 60, "about to touch address zero"), ("flood", 60, "bytes left out")],
)
def test_what_a_dead_miner_wrote_is_kept_where_the_message_says(
    job: MiningJob, tmp_path: Path, act: str, deadline_s: float, words: str
) -> None:
    logs = tmp_path / "run" / "logs"
    for number in (1, 2):
        with pytest.raises(MinerDied) as died:
            run(sabotaged(job, act), deadline_s=deadline_s, logs=logs)
        kept = logs / f"miner-{number}.stderr.txt"
        assert str(kept) in str(died.value)
        assert words in kept.read_text()
        assert kept.stat().st_size < 400_000


def test_logs_that_cannot_be_kept_do_not_hide_the_death(job: MiningJob, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(MinerDied, match="SIGSEGV.*could not be kept in .*Not a directory"):
        run(sabotaged(job, "segfault"), logs=tmp_path / "file" / "logs")


def test_what_a_miner_started_ends_with_it(job: MiningJob) -> None:
    """Here a forked child that holds all its pipes, and one in a session of its own."""
    assert run(sabotaged(job, "orphan")).queries == 30
    assert not workers()


def test_a_fresh_process_gets_a_second_chance(job: MiningJob, tmp_path: Path) -> None:
    said: list[str] = []
    counter = str(tmp_path / "count")
    report = mine(sabotaged(job, "segfault", times=1, counter=counter), ["exact"], said.append)
    assert report.miner == "saboteur"
    assert len(report.deaths) == 1
    assert "MINER FAILED (saboteur, attempt 1)" in said[0]
    assert "Trying once more" in said[0]


def test_the_next_miner_takes_over_aloud(job: MiningJob) -> None:
    said: list[str] = []
    report = mine(sabotaged(job, "segfault"), ["faiss", "exact"], said.append)
    assert report.miner == "faiss"
    assert len(report.deaths) == 2
    assert "MINER REPLACED: 'faiss' takes over from 'saboteur'." in said
    assert (np.load(report.ids_path)[:, 0] == (BANK[:30] @ BANK.T).argmax(axis=1)).all()


def test_when_none_is_left_the_run_gives_up(job: MiningJob) -> None:
    with pytest.raises(GaveUp, match="tried: saboteur") as gave_up:
        mine(sabotaged(job, "lie"), [], isolation="none")
    assert gave_up.value.exit_code == ExitCode.GAVE_UP
    assert "--miner exact" in gave_up.value.hint
    assert "doctor" not in gave_up.value.hint


def test_a_second_attempt_continues_after_the_durable_chunks(
    job: MiningJob, tmp_path: Path
) -> None:
    """The first process dies in its second chunk of three."""
    counter = tmp_path / "count"
    counter.write_text("-1")
    dying = sabotaged(job, "segfault-later", counter=str(counter))
    with pytest.raises(MinerDied):
        run(dying)
    counter.write_text("-99")
    report = run(dying)
    assert report.continued_from == 10
    assert (np.load(report.ids_path) == np.arange(5)).all()
    assert run(dying).continued_from == 30


def test_errors_of_the_data_are_not_the_miners(job: MiningJob) -> None:
    gone = replace(job, bank=VectorRef("/nowhere/bank.npz", "vectors"))
    with pytest.raises(DataMissing, match="no such file"):
        run(gone)
    wrong = job.with_miner(MinerChoice(name="faiss", options={"kind": "tree"}))
    with pytest.raises(ConfigError, match="kind"):
        run(wrong)


def test_the_worker_never_imports_torch_unless_its_miner_does(job: MiningJob) -> None:
    code = (
        "import sys, json\n"
        "from ttf.mining.job import MiningJob\n"
        "from ttf.mining.work import do_job\n"
        "do_job(MiningJob.from_json(json.loads(sys.argv[1])), print, lambda a, b: None)\n"
        "print('torch' in sys.modules)"
    )
    import json

    for miner, loads in (("faiss", "False"), ("hnswlib", "False"), ("exact", "True")):
        text = json.dumps(job.with_miner(MinerChoice(name=miner)).to_json())
        done = subprocess.run(
            [sys.executable, "-c", code, text], capture_output=True, text=True, check=True
        )
        assert done.stdout.strip() == loads, miner


def test_the_worker_ends_with_its_parent(job: MiningJob, tmp_path: Path) -> None:
    code = (
        "import sys, json\n"
        "from ttf.mining.job import MiningJob\n"
        "from ttf.mining.workers import MinerWorkers\n"
        "job = MiningJob.from_json(json.loads(sys.argv[1]))\n"
        "MinerWorkers(isolation='process', say=print).run(job, 60, print)"
    )
    import json

    hanging = json.dumps(sabotaged(job, "hang").to_json())
    parent = subprocess.Popen([sys.executable, "-c", code, hanging])
    worker: list[psutil.Process] = []

    def searching() -> bool:
        worker[:] = psutil.Process(parent.pid).children()
        return bool(worker) and (Path(job.out) / "progress.json").exists()

    wait_until(searching, 30)
    time.sleep(0.1)
    parent.kill()
    parent.wait()
    _, alive = psutil.wait_procs(worker, timeout=2)
    assert not alive


def test_the_unsafe_openmp_switch_does_not_reach_the_worker(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("KMP_DUPLICATE_LIB_OK", "TRUE")
    ours = environment(3, "mark")
    assert "KMP_DUPLICATE_LIB_OK" not in ours
    assert ours["OMP_NUM_THREADS"] == ours["OPENBLAS_NUM_THREADS"] == "3"
