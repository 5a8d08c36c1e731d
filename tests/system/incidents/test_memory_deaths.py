"""Real ends for want of memory, and ends that only look like it."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
from importlib.metadata import version
from pathlib import Path

import pytest
from tests.kit.dying_process import die, finding_of, kill, told
from tests.kit.fixtures.incidents import JoinGroup

from ttf.incidents.classify import classify

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the deaths are made for Linux")


def test_a_kill_by_the_kernel_for_memory_is_an_oom_kill(tmp_path: Path, join: JoinGroup) -> None:
    death = die("bytearray(256 << 20)", tmp_path, during=join)
    found = classify(death)
    assert (found.name, found.certain) == ("oom-kill", True)
    assert (death.oom_kills, death.signal) == (1, signal.SIGKILL)
    assert "ttf-test-" in death.oom_source and "memory.oom_control" in death.oom_source
    assert "the counter of OOM kills increased by 1" in told(found)
    if death.kernel:
        assert f"Killed process {death.pid} (python" in told(found), "only where it may be read"


def test_a_kill_by_a_person_is_never_called_oom(tmp_path: Path, join: JoinGroup) -> None:
    def move_and_kill(child: subprocess.Popen[bytes]) -> None:
        join(child)
        kill(signal.SIGKILL)(child)

    for during in (kill(signal.SIGKILL), move_and_kill):
        found = finding_of("", tmp_path, during=during)
        assert (found.name, found.remedies) == ("killed", ())
        assert "No memory counter of the kernel increased: this was not the OOM killer." in (
            found.explanation
        )
        assert "the counter of OOM kills did not increase" in told(found)


def test_an_oom_kill_of_a_child_explains_the_parent_that_gave_up(
    tmp_path: Path, join: JoinGroup
) -> None:
    code = """
        import subprocess, sys
        subprocess.run([sys.executable, "-c", "bytearray(256 << 20)"], check=True)
    """
    found = finding_of(textwrap.dedent(code), tmp_path, during=join)
    assert (found.name, found.certain) == ("oom-kill", True)
    assert "died with <Signals.SIGKILL: 9>" in told(found)


def test_a_refused_allocation_is_an_alloc_failure(tmp_path: Path) -> None:
    code = """
        import resource
        resource.setrlimit(resource.RLIMIT_DATA, (256 << 20, 256 << 20))
        bytearray(1 << 30)
    """
    found = finding_of(textwrap.dedent(code), tmp_path)
    assert (found.name, found.at_once) == ("alloc-failure", True)
    assert "MemoryError" in told(found)


def test_a_memory_error_that_was_survived_does_not_explain_a_later_death(tmp_path: Path) -> None:
    code = """
        import traceback
        try: raise MemoryError
        except MemoryError: traceback.print_exc()
        for _ in range(40): print('going on', file=sys.stderr)
        raise KeyError('rows')
    """
    found = finding_of(textwrap.dedent(code), tmp_path)
    assert found.name == "python-error"
    assert "KeyError: 'rows'" in found.explanation


@pytest.mark.skipif(
    version("numpy").startswith("2.0."), reason="its OpenBLAS asks for memory again for ever"
)
def test_openblas_that_leaves_without_a_python_error_is_an_alloc_failure(tmp_path: Path) -> None:
    code = """
        import resource
        resource.setrlimit(resource.RLIMIT_DATA, (40 << 20, 40 << 20))
        import numpy
    """
    death = die(textwrap.dedent(code), tmp_path)
    if "OpenBLAS" not in death.stderr:
        pytest.skip("numpy is not built with OpenBLAS, or fails otherwise")
    found = classify(death)
    assert (found.name, found.at_once, death.exit_code) == ("alloc-failure", True, 1)
    assert "without a Python error" in found.explanation


def test_our_own_limit_is_not_the_kernels(tmp_path: Path) -> None:
    found = finding_of(
        "",
        tmp_path,
        during=kill(signal.SIGKILL),
        killed_by_us="memory",
        reason="7.7 GB of 8.0 GB (cgroup /job)",
    )
    assert (found.name, found.certain) == ("memory-limit", True)
    assert "7.7 GB of 8.0 GB (cgroup /job)" in found.explanation
