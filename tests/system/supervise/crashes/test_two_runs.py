"""One folder, one run: whoever comes second is told who is there."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

from tests.conftest import wait_until
from tests.kit.fixtures.crashes import Start
from tests.kit.gate import Gate
from tests.kit.live_run import LONGEST_S, in_phase, summary_of
from tests.kit.struck_run import EVERY, assert_undisturbed
from tests.kit.widely import wide

from ttf.errors import ExitCode


@wide
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


def test_of_five_that_start_at_once_one_gets_the_folder_and_of_five_that_resume_after_its_kill(
    train: Start, command: Start, run: Path, undisturbed: str
) -> None:
    """The lock of the dead one is stale; its trainer may still be there."""
    gate = Gate(run)  # that of all five
    gate.shut(in_phase("forward", since=EVERY))
    starters = [train() for _ in range(5)]
    wait_until(lambda: sum(one.over for one in starters) == 4, LONGEST_S)
    (winner,) = [one for one in starters if not one.over]
    for loser in starters:
        if loser is not winner:
            end = loser.wait()
            assert end.code == ExitCode.IN_USE
            assert re.search(rf"Another process .* \(process {winner.pid}\)", end.err), end.err
    winner.until(gate.reached, "it trains")
    winner.kill()
    racers = [command(["resume", run, "--json"]) for _ in range(5)]
    codes = sorted(racer.wait().code for racer in racers)
    assert codes == [ExitCode.DONE, *[ExitCode.IN_USE] * 4]
    assert summary_of(run)["status"] == "finished"
    assert_undisturbed(run, undisturbed, restarts=0)
