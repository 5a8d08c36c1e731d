"""What the system does to a worker: ends it for memory, or aborts it over two OpenMP runtimes."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import psutil
import pytest
from tests.kit import openmp
from tests.kit.memory_group import memory_group
from tests.kit.sabotaged_miner import PRELUDE, Deaths, ask, is_right, mine, sabotaged

from ttf.incidents.classify import classify
from ttf.mining.job import MinerChoice, MiningJob
from ttf.mining.worker_client import MinerWorkers

intel_openmp = openmp.intel_openmp  # a fixture of this file
LIMIT = 400 << 20
OUTLIVES = (
    PRELUDE
    + """
deaths = []
with MinerWorkers(
    isolation="process", say=print, on_death=lambda death, remedy: deaths.append(death)
) as workers:
    report = workers.mine(
        job,
        [MinerChoice(name="faiss")],
        deadline_s=lambda job: 60,
        progress=lambda done, total: None,
    )
print(json.dumps([report.miner, *([d.signal, d.oom_kills, d.oom_source] for d in deaths)]))
"""
)


@pytest.fixture
def group() -> Iterator[Path]:
    """A control group (version 1) with a limit; its members are ended with it."""
    with memory_group(LIMIT >> 20) as made:
        yield made.folder


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's memory kills are Linux's")
def test_where_memory_runs_out_the_worker_is_the_victim(job: MiningJob, group: Path) -> None:
    """Trainer and worker in one group: the kernel ends the worker, a smaller miner takes over."""
    greedy = sabotaged(job, "allocate", arg="4000")
    script = f"import os; open({str(group / 'cgroup.procs')!r}, 'w').write(str(os.getpid()))\n"
    done = subprocess.run(
        [sys.executable, "-c", script + OUTLIVES, json.dumps(asdict(greedy))],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    miner, *deaths = json.loads(done.stdout.splitlines()[-1])
    assert miner == "faiss"
    assert [death[0] for death in deaths] == [signal.SIGKILL] * 2
    assert all(kills >= 1 and group.name in source for _, kills, source in deaths)


@pytest.mark.skipif(sys.platform != "linux", reason="oom_score_adj is Linux's")
def test_a_worker_is_the_first_victim_and_its_keeper_is_not(job: MiningJob) -> None:
    with MinerWorkers(isolation="process", say=print) as workers:
        ask(workers, sabotaged(job, "answer"))
        worker = psutil.Process(workers.pid)
        (keeper,) = worker.children()
        scores = [Path(f"/proc/{p.pid}/oom_score_adj").read_text() for p in (worker, keeper)]
    assert int(scores[0]) == 1000
    assert int(scores[1]) < 1000


@pytest.fixture
def two_runtimes(intel_openmp: Path, tmp_path: Path) -> str:
    """Paths of two copies of an OpenMP runtime that refuses to meet itself."""
    copies = [tmp_path / name / intel_openmp.name for name in ("a", "b")]
    for copy in copies:
        copy.parent.mkdir()
        shutil.copyfile(intel_openmp, copy)
    return ":".join(map(str, copies))


def test_two_openmp_runtimes_abort_the_worker_alone(
    job: MiningJob, two_runtimes: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the variable that hides this is set for the trainer."""
    monkeypatch.setenv("KMP_DUPLICATE_LIB_OK", "TRUE")
    deaths = Deaths()
    dying = sabotaged(job, "dlopen", arg=two_runtimes)
    report = mine(dying, ["faiss"], on_death=deaths, logs=tmp_path / "logs")
    assert (report.miner, is_right(report)) == ("faiss", True)
    assert deaths.signals == [signal.SIGABRT] * 2
    assert "OMP: Error #15" in deaths.all[0].stderr
    assert classify(deaths.all[0]).name == "omp-duplicate"
    for death in deaths.all:
        assert not list(Path("/dev/shm").glob(f"__KMP_REGISTERED_LIB_{death.pid}_*"))


def test_the_same_miner_tried_again_gives_the_same_bits(job: MiningJob, tmp_path: Path) -> None:
    """Killed in the second chunk, answered by another process: not a bit differs."""
    options = {"kind": "ivf", "nlist": 4, "nprobe": 2}
    indexed = job.with_miner(MinerChoice(name="faiss", options=options))
    undisturbed = mine(replace(indexed, out=str(tmp_path / "undisturbed")))
    with MinerWorkers(isolation="process", say=print) as workers:

        def kill_it(done: int, total: int) -> None:
            if done and workers.pid is not None and not killed:
                killed.append(workers.pid)
                os.kill(workers.pid, signal.SIGKILL)

        killed: list[int] = []
        disturbed = workers.mine(indexed, [], deadline_s=lambda _: 60, progress=kill_it)
    assert killed
    for path in ("ids_path", "scores_path"):
        assert np.array_equal(
            np.load(getattr(undisturbed, path)), np.load(getattr(disturbed, path))
        )
