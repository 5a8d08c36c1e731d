"""With supervise.core, the incident of a trainer that died in native code has its function."""

from __future__ import annotations

import resource
import shutil
import sys
from pathlib import Path

import pytest
from tests.kit import saboteur as sabotage
from tests.kit.fixtures.crashes import Start
from tests.kit.struck_run import World, incidents_of
from tests.kit.widely import wide

from ttf.incidents.core_file import CoreFiles


@wide
def test_the_native_function_is_named_and_the_run_ends_in_order(
    world: World, train: Start, run: Path, tmp_path: Path
) -> None:
    if sys.platform != "linux" or shutil.which("gdb") is None:
        pytest.skip("core files of Linux, read by gdb")
    if CoreFiles().program or resource.getrlimit(resource.RLIMIT_CORE)[1] == 0:
        pytest.skip("no core files here")
    crash = sabotage.spec(tmp_path / "notes", "forward", "segv", step=3)
    ended = train("supervise.core=true", env=sabotage.variable(crash)).wait()
    assert ended.code == 0, ended.err
    (incident,) = incidents_of(run)
    assert incident["class"] == "segfault"
    assert "string_at" in " ".join(frame["function"] for frame in incident["native_frames"])
    threads = (run / "incidents/001/native.txt").read_text()
    assert threads.count("\nThread ") > 1, "all of them"
    assert not list(world.root.glob("core*"))
