"""Forty planted crashes: the right class, nothing wrong said for certain, nothing in between lost."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import psutil
import pytest
from tests.kit.fixtures.guard import Start
from tests.kit.guarded_command import PYTHON, Guarded, incident, ours, pause, summary, theirs
from tests.kit.planted_crashes import PLANTED, Planted
from tests.kit.widely import CHAOS

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="the deaths are made for Linux"),
]
SEEN_S = 5.0
"""After so long a guard has seen what is mapped; nothing tells when it does."""


@pytest.mark.parametrize("planted", PLANTED, ids=lambda planted: planted.name)
def test_a_planted_crash_is_named(
    planted: Planted,
    start: Start,
    tmp_path: Path,
    rows: list[tuple[str, ...]],
    request: pytest.FixtureRequest,
) -> None:
    if not (planted.quick or CHAOS):
        pytest.skip("one of many: TTF_CHAOS=1 runs it")
    guarded = start(_words(planted, tmp_path, request), "--out", "watch", *planted.options)
    _disturb(planted, guarded, request)
    code = guarded.wait()
    found = incident(tmp_path / "watch")
    row = (planted.name, planted.expected, found["class"], str(code), str(found["certain"]))
    right = found["class"] == planted.expected
    rows.append((*row, "right" if right else "WRONG"))
    assert right or not found["certain"], "a wrong cause, said for certain"
    told = (found["class"], code)
    assert told == (planted.expected, planted.exit_code), ours(guarded.err)
    assert planted.certain in (None, found["certain"])
    assert found["process"] == "command"
    assert summary(tmp_path / "watch")["incidents"][0]["class"] == planted.expected
    assert guarded.out == bytes(range(256))
    steps = b"".join(b"step %d\n" % i for i in range(3)) if planted.torch else b""
    assert theirs(guarded.err).startswith(steps)
    assert planted.expected in ours(guarded.err)


def _words(planted: Planted, folder: Path, request: pytest.FixtureRequest) -> list[str]:
    source = planted.source
    if planted.needs == "disk":
        source = source.replace("{disk}", str(request.getfixturevalue("small_disk")))
    (folder / "train.py").write_text(source)
    if planted.shell:
        return ["bash", "-c", f"{PYTHON} train.py; exit $?"]
    if planted.needs == "openmp":
        library = request.getfixturevalue("intel_openmp")
        copies = [folder / name / library.name for name in "ab"]
        for copy in copies:  # of one file, links would be recognised as the same
            copy.parent.mkdir()
            copy.write_bytes(library.read_bytes())
        return [PYTHON, "train.py", *map(str, copies)]
    return [PYTHON, "train.py"]


def _disturb(planted: Planted, guarded: Guarded, request: pytest.FixtureRequest) -> None:
    """What is done from outside, once the script is ready for it."""
    folder = guarded.folder
    if planted.send is not None:
        os.kill(guarded.pid_of(), planted.send)
    elif planted.act == "kill worker":
        os.kill(guarded.pid_of("worker"), signal.SIGKILL)
    elif planted.act in ("join group", "tree joins group"):
        group = request.getfixturevalue("memory_group")
        pids = [guarded.pid_of()]
        if planted.act == "tree joins group":
            pids.append(psutil.Process(pids[0]).ppid())
        for pid in pids:
            (group / "cgroup.procs").write_text(str(pid))
        pause(2)
    elif planted.act:
        guarded.pid_of()
        pause(SEEN_S)
        bank = folder / "bank.f32"
        if planted.act == "truncate":
            os.truncate(bank, 4096)
        else:
            with bank.open("r+b") as file:
                file.write(b"\x01" * bank.stat().st_size)
    if planted.act:
        (folder / "go").touch()
