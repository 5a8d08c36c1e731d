"""The suite that ttf has for executors on real worker processes, and what is particular to dask."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from distributed import LocalCluster
from ttf import ConfigError, Job, JobEnd
from ttf.testing import ExecutorTests

from ttf_executor_dask._jobs import DaskExecutor
from ttf_executor_dask.dask_executor import DaskOptions

WAIT_S = 120.0
PROGRAM = """
import os, pathlib, sys, time
note = pathlib.Path(sys.argv[1])
with note.open("a") as file:
    print(os.getppid(), os.getpid(), file=file, flush=True)
time.sleep(float(sys.argv[2]))
"""


class TestDask(ExecutorTests):
    name = "dask"


@pytest.fixture
def executor() -> Iterator[DaskExecutor]:
    made = DaskExecutor(DaskOptions(), 2)
    yield made
    made.close()


def job(tmp_path: Path, name: str, *words: object) -> Job:
    (tmp_path / "noting.py").write_text(PROGRAM)
    environment = {"PYTHONPATH": str(tmp_path)}
    texts = tuple(map(str, words))
    return Job(name=name, module="noting", words=texts, cwd=str(tmp_path), environment=environment)


def end_of(executor: DaskExecutor, name: str) -> JobEnd:
    until = time.monotonic() + WAIT_S
    while time.monotonic() < until:
        for end in executor.ended():
            if end.name == name:
                return end
        time.sleep(0.02)
    raise AssertionError(f"{name} did not end")


def test_a_job_whose_worker_is_killed_is_lost_and_not_begun_again(
    executor: DaskExecutor, tmp_path: Path
) -> None:
    note = tmp_path / "note"
    executor.start(job(tmp_path, "a", note, 600))
    until = time.monotonic() + WAIT_S
    while not note.exists() or not note.read_text().strip():
        assert time.monotonic() < until
        time.sleep(0.02)
    worker, process = map(int, note.read_text().split())
    os.kill(worker, signal.SIGKILL)
    end = end_of(executor, "a")
    assert end.exit_code is None and end.errors
    until = time.monotonic() + WAIT_S
    while Path(f"/proc/{process}").exists():
        assert time.monotonic() < until, "the job ends with its worker"
        time.sleep(0.02)
    assert len(note.read_text().splitlines()) == 1, "begun once"
    executor.start(job(tmp_path, "b", tmp_path / "other", 0))
    assert end_of(executor, "b").exit_code == 0, "the cluster has another worker"


def test_a_scheduler_that_runs_already_is_used(tmp_path: Path) -> None:
    with LocalCluster(  # type: ignore[no-untyped-call]
        n_workers=1, threads_per_worker=1, dashboard_address=None, silence_logs=40
    ) as cluster:
        executor = DaskExecutor(DaskOptions(address=cluster.scheduler_address), 1)
        executor.start(job(tmp_path, "a", tmp_path / "note", 0))
        assert end_of(executor, "a").exit_code == 0
        executor.close()
        assert cluster.scheduler_info["workers"], "it is not ours to end"


def test_a_scheduler_that_is_not_there_is_told() -> None:
    with pytest.raises(ConfigError, match="No dask scheduler answers at 'tcp://127.0.0.1:1'"):
        DaskExecutor(DaskOptions(address="tcp://127.0.0.1:1", connect_s=1.0), 1)
