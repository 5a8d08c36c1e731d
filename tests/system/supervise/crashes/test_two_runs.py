"""One folder, one run: whoever comes second is told who is there."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

from tests.kit.fixtures.crashes import Start
from tests.kit.live_run import in_phase, summary_of
from tests.kit.struck_run import EVERY, assert_undisturbed

from ttf.errors import ExitCode


def test_a_second_command_is_refused_by_a_supervisor_that_loads_no_library_that_computes(
    train: Start, command: Start, run: Path, undisturbed: str
) -> None:
    live = train()
    live.strike(signal.SIGSEGV, in_phase("start"))  # so that it has classified a death, too
    trainer, _ = live.hold(in_phase("forward", since=EVERY))
    libraries = Path(f"/proc/{live.pid}/maps").read_text()
    status = Path(f"/proc/{live.pid}/status").read_text()
    others = [train(), command(["resume", run, "--json"]), command(["train", "--resume", run])]
    for other in others:
        ended = other.wait()
        assert ended.code == ExitCode.IN_USE
        assert f"Another process is using {run} (process {live.pid})" in ended.err
    os.kill(trainer, signal.SIGCONT)
    assert live.wait().code == 0
    assert_undisturbed(run, undisturbed, restarts=1)
    for name in ("torch", "numpy", "pydantic", "faiss", "hnswlib", "zarr"):
        assert name not in libraries, name
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert found is not None
    held_mib = int(found[1]) / 1024
    print(f"supervisor: {held_mib:.1f} MiB at most")
    assert held_mib < 60  # 30 are promised; what the interpreter itself takes differs


def test_of_five_that_start_at_once_one_gets_the_folder(train: Start, run: Path) -> None:
    racers = [train(steps=1) for _ in range(5)]
    ended = {racer.pid: racer.wait() for racer in racers}
    winners = [pid for pid, end in ended.items() if end.code == 0]
    assert len(winners) == 1, [end.code for end in ended.values()]
    for pid, end in ended.items():
        if pid not in winners:
            assert end.code == ExitCode.IN_USE
            assert re.search(rf"Another process .* \(process {winners[0]}\)", end.err), end.err
    assert summary_of(run)["status"] == "finished"


def test_five_that_resume_at_once_after_a_kill_are_one(
    train: Start, command: Start, run: Path, undisturbed: str
) -> None:
    """The lock of the dead one is stale; its trainer may still be there."""
    live = train()
    live.hold(in_phase("forward", since=EVERY))
    live.kill()
    racers = [command(["resume", run, "--json"]) for _ in range(5)]
    codes = sorted(racer.wait().code for racer in racers)
    assert codes == [ExitCode.DONE, *[ExitCode.IN_USE] * 4]
    assert_undisturbed(run, undisturbed, restarts=0)
