"""Which counter of memory kills speaks: version 2 on recorded files, a watch with its own clock."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.conftest import ROOT

from ttf.machine.memory.limits import OomCounters, OomWatch

RECORDED = ROOT / "tests/recorded/incidents/cgroup2"
GROUP = Path("sys/fs/cgroup/job.slice/run")
PID = 4242


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """/proc and /sys before the kill."""
    shutil.copytree(RECORDED / "before", tmp_path / "root")
    return tmp_path / "root"


@pytest.fixture
def kernel_kills(root: Path) -> Callable[[], None]:
    """Turns them into what they were after it; the victim's own folder in /proc is gone."""

    def after() -> None:
        shutil.copytree(RECORDED / "after", root, dirs_exist_ok=True)
        shutil.rmtree(root / f"proc/{PID}")

    return after


def test_the_victims_own_group_speaks(root: Path, kernel_kills: Callable[[], None]) -> None:
    before = OomCounters.read(PID, root)
    kernel_kills()
    assert before.again().rise_since(before) == (1, "cgroup /job.slice/run (memory.events.local)")


def test_old_kernels_have_no_local_file(root: Path, kernel_kills: Callable[[], None]) -> None:
    before_kill = root / GROUP / "memory.events.local"
    before_kill.unlink()
    before = OomCounters.read(PID, root)
    kernel_kills()
    assert before.again().rise_since(before) == (1, "cgroup /job.slice/run (memory.events)")


def test_a_kill_in_a_group_below_is_not_the_victims(root: Path) -> None:
    before = OomCounters.read(PID, root)
    shutil.copy(RECORDED / "after" / GROUP / "memory.events", root / GROUP)
    shutil.copy(RECORDED / "after/proc/vmstat", root / "proc")
    assert before.again().rise_since(before)[0] == 0


def test_a_group_without_the_memory_controller_is_accounted_by_its_parent(root: Path) -> None:
    inner = root / GROUP / "inner"
    inner.mkdir()
    (root / f"proc/{PID}/cgroup").write_text("0::/job.slice/run/inner\n")
    before = OomCounters.read(PID, root)
    assert before.rise_since(before) == (0, "cgroup /job.slice/run (memory.events.local)")


def test_where_the_group_does_not_count_the_machine_does(
    root: Path, kernel_kills: Callable[[], None]
) -> None:
    shutil.rmtree(root / GROUP)
    before = OomCounters.read(PID, root)
    (root / "proc/vmstat").write_text("oom_kill 8\n")
    assert before.again().rise_since(before) == (1, "/proc/vmstat (oom_kill)")


def test_a_group_that_went_with_its_last_process_leaves_the_machines_word(
    root: Path, kernel_kills: Callable[[], None]
) -> None:
    before = OomCounters.read(PID, root)
    kernel_kills()
    shutil.rmtree(root / GROUP)
    assert before.again().rise_since(before) == (1, "/proc/vmstat (oom_kill)")


def test_kernels_that_count_whole_groups_only(root: Path) -> None:
    for name in ("memory.events", "memory.events.local"):
        (root / GROUP / name).write_text("oom 1\noom_group_kill 1\n")
    before = OomCounters.read(PID, root)
    (root / GROUP / "memory.events.local").write_text("oom 2\noom_group_kill 2\n")
    assert before.again().rise_since(before)[0] == 1


def test_nothing_is_claimed_where_nothing_can_be_read(tmp_path: Path) -> None:
    nothing = OomCounters.read("self", tmp_path)
    assert nothing.again().rise_since(nothing) == (0, "")


def test_a_damaged_counter_is_no_counter(root: Path) -> None:
    (root / GROUP / "memory.events.local").write_text("oom_kill many\n")
    (root / GROUP / "memory.events").write_text("oom_kill")
    (root / "proc/vmstat").write_text("")
    assert OomCounters.read(PID, root).counts == {}


def test_a_kill_long_before_the_end_was_somebody_elses(root: Path) -> None:
    watch = OomWatch(PID, root)
    watch.look(now=0.0)
    shutil.copytree(RECORDED / "after", root, dirs_exist_ok=True)
    watch.look(now=1.0)
    for second in range(2, 30):
        watch.look(now=float(second))
    assert watch.rise(now=30.0) == (0, "cgroup /job.slice/run (memory.events.local)")


def test_a_kill_just_before_the_end_is_this_death(
    root: Path, kernel_kills: Callable[[], None]
) -> None:
    watch = OomWatch(PID, root)
    for second in range(30):
        watch.look(now=float(second))
    kernel_kills()
    watch.look(now=30.0)
    assert watch.rise(now=30.5)[0] == 1


def test_a_process_that_was_moved_is_followed(root: Path) -> None:
    """A victim that is ending may seem to be in another group already: both are kept."""
    watch = OomWatch(PID, root)
    other = root / "sys/fs/cgroup/other"
    shutil.copytree(root / GROUP, other)
    (root / f"proc/{PID}/cgroup").write_text("0::/other\n")
    watch.look()
    (other / "memory.events.local").write_text("oom_kill 9\n")
    assert watch.rise() == (7, "cgroup /other (memory.events.local)")
