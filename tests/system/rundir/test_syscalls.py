"""The system calls of a checkpoint fail or kill, each in turn, without our code's help (strace)."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections import Counter
from pathlib import Path

import pytest
from tests.kit.fixtures.durability import Ended, Forker
from tests.kit.small_run import assert_whole, begin, recovered, write_run
from tests.kit.widely import CHAOS

BEGUN, STEPS = 2, 4
# A checkpoint gets its name by rename; an old one loses it by renameat, in its open folder.
CALLS = {"write": "pwrite64", "fsync": "fsync", "rename": "rename", "renameat": "renameat"}


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = begin(tmp_path_factory.mktemp("begun") / "run")
    write_run(root, tell=lambda **_: None, stop=BEGUN)
    return root


def under_strace(
    forker: Forker, begun: Path, root: Path, inject: str, log: Path | None = None
) -> Ended:
    """A child that goes on with the run, traced from before its first write."""
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("strace is not installed")
    shutil.copytree(begun, root)
    child = forker.fork(root, start=BEGUN, stop=STEPS)
    forker.wait_until_ready()
    calls = ",".join(CALLS.values())
    command = [
        strace,
        "-f",
        "-p",
        str(child),
        "-o",
        str(log or "/dev/null"),
        "-e",
        f"trace={calls}",
    ]
    command += ["-e", f"inject={inject}"] if inject else []
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as tracer:
        try:
            wait_until_traced(child, tracer)
            forker.go()
            ended = forker.ended()
        finally:
            if tracer.poll() is None and forker.child:
                tracer.terminate()
        tracer.wait(timeout=30)
    return ended


def wait_until_traced(child: int, tracer: subprocess.Popen[str]) -> None:
    while True:
        status = Path(f"/proc/{child}/status").read_text()
        if "TracerPid:\t0\n" not in status:
            return
        if tracer.poll() is not None:
            assert tracer.stderr is not None
            pytest.skip(f"strace may not attach here: {tracer.stderr.read()}")
        time.sleep(0.005)


@pytest.fixture(scope="module")
def counts(begun: Path, forking: Forker, tmp_path_factory: pytest.TempPathFactory) -> Counter[str]:
    """How often the checkpoint thread of an undisturbed run makes each call."""
    folder = tmp_path_factory.mktemp("counted")
    ended = under_strace(forking, begun, folder / "run", "", folder / "log")
    assert ended.acknowledged == STEPS
    lines = [line.split(maxsplit=1) for line in (folder / "log").read_text().splitlines()]
    saving = next(thread for thread, text in lines if "step-000000003" in text)
    return Counter(
        name
        for thread, text in lines
        for name, call in CALLS.items()
        if thread == saving and text.startswith(f"{call}(")
    )


FAULTS = ["signal=KILL", "error=ENOSPC", "error=EIO"]


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("call", CALLS)
def test_a_call_that_fails_or_kills_costs_no_acknowledged_checkpoint(
    call: str, fault: str, counts: Counter[str], begun: Path, forker: Forker, ram: Path
) -> None:
    assert counts[call] >= STEPS - BEGUN
    for number in range(1, counts[call] + 1):
        root = ram / f"run{number}"
        ended = under_strace(forker, begun, root, f"{CALLS[call]}:{fault}:when={number}")
        where = f"{call} {fault} {number} of {counts[call]}: {ended}"
        found = recovered(root)
        assert max(BEGUN, ended.acknowledged) <= found.step <= STEPS, where
        assert_whole(root, found)
        if "KILL" in fault:
            assert ended.status == -9, where
        else:
            assert ended.status == 0 and ended.said, where
        shutil.rmtree(root)


def test_a_disk_that_takes_less_than_it_says_is_found_out(
    counts: Counter[str], begun: Path, forker: Forker, ram: Path
) -> None:
    noticed, last = 0, counts["write"]
    # The writes of the last checkpoint are those of every one.
    numbers = range(1 if CHAOS else last // (STEPS - BEGUN) + 1, last + 1)
    for number in numbers:
        root = ram / f"run{number}"
        ended = under_strace(forker, begun, root, f"pwrite64:retval=100:when={number}")
        assert ended.status == 0, ended
        noticed += any("IS NOT WRITTEN" in text for text in ended.said)
        found = recovered(root)
        assert found.step >= max(STEPS - 1, ended.acknowledged), ended
        assert_whole(root, found)
        shutil.rmtree(root)
    assert noticed == len(numbers) > 0
