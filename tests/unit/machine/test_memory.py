"""Memory figures against real allocations, real shared memory and real child processes."""

from __future__ import annotations

import errno
import itertools
import json
import os
import resource
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ttf.errors import TtfError
from ttf.machine.memory import limits
from ttf.machine.memory._darwin import DarwinTree
from ttf.machine.memory.limits import limit_in_force
from ttf.machine.memory.sampler import MemorySampler
from ttf.machine.memory.too_little import too_little_memory
from ttf.machine.memory.tree import TreeMemory
from ttf.machine.memory.watch import tree_reader

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
MB = 1 << 20
SLACK = 4 * MB
"""The kernel's counters are kept per processor and lag by some pages."""


@linux_only
def test_private_memory_is_anonymous_and_freed_memory_is_gone() -> None:
    import mmap

    # Not from the heap, which may hold that much from before.
    before = tree_reader(os.getpid())()
    block = mmap.mmap(-1, 64 * MB, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    for start in range(0, 64 * MB, 4096):
        block[start] = 7
    during = tree_reader(os.getpid())()
    assert during.anon - before.anon == pytest.approx(64 * MB, abs=SLACK)
    assert during.shared == before.shared
    block.close()
    assert tree_reader(os.getpid())().anon == pytest.approx(before.anon, abs=SLACK)


@linux_only
def test_a_mapped_file_is_file_backed_and_not_held(tmp_path: Path) -> None:
    import mmap

    # On tmpfs a mapped file *is* shared memory; the checkout lies on a disk.
    path = Path(__file__).parent / f".mapped-{os.getpid()}"
    path.write_bytes(bytes(32 * MB))
    try:
        before = tree_reader(os.getpid())()
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as m:
            assert sum(m[i] for i in range(0, len(m), 4096)) == 0
            after = tree_reader(os.getpid())()
        assert after.file + after.shared - before.file - before.shared > 30 * MB
        assert after.anon == pytest.approx(before.anon, abs=SLACK)
    finally:
        path.unlink()


def recorded(pid: int, rss: int, uss: int, below: list[Any] | None = None) -> Any:
    return SimpleNamespace(
        pid=pid,
        children=lambda recursive: below or [],
        memory_full_info=lambda: SimpleNamespace(rss=rss, uss=uss),
    )


def test_on_darwin_uss_is_held_and_the_rest_is_file_backed() -> None:
    miner = recorded(11, rss=300, uss=120)
    trainer = recorded(10, rss=1000, uss=700, below=[miner])
    memory = DarwinTree(10, {10: trainer}.__getitem__)()
    assert memory == TreeMemory(anon=820, shared=0, file=480, processes=2)


def test_on_darwin_a_child_that_just_ended_is_left_out() -> None:
    import psutil  # type: ignore[import-untyped, unused-ignore]

    def ended() -> Any:
        raise psutil.NoSuchProcess(11)

    dead = SimpleNamespace(memory_full_info=ended)
    trainer = recorded(10, rss=1000, uss=700, below=[dead])
    assert DarwinTree(10, {10: trainer}.__getitem__)().processes == 1


# --- limits ----------------------------------------------------------------------------------


def fake_root(tmp_path: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def test_without_any_limit_physical_memory_is_the_limit(tmp_path: Path) -> None:
    import psutil  # type: ignore[import-untyped, unused-ignore]

    limit = limit_in_force(tmp_path)
    assert limit == (psutil.virtual_memory().total, "physical memory")


def test_the_smallest_limit_of_all_ancestors_holds_in_cgroup_v2(tmp_path: Path) -> None:
    root = fake_root(
        tmp_path,
        {
            "proc/self/cgroup": "0::/job/task\n",
            "sys/fs/cgroup/job/memory.max": f"{300 * MB}\n",
            "sys/fs/cgroup/job/task/memory.max": "max\n",
        },
    )
    assert limit_in_force(root) == (300 * MB, "cgroup /job (memory.max)")


def test_a_container_that_sees_only_its_own_group_is_limited_too(tmp_path: Path) -> None:
    root = fake_root(
        tmp_path,
        {
            "proc/self/cgroup": "4:memory:/docker/abc\n0::/docker/abc\n",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": f"{200 * MB}\n",
        },
    )
    assert limit_in_force(root) == (200 * MB, "cgroup /memory (memory.limit_in_bytes)")


# --- the sampler -----------------------------------------------------------------------------


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@linux_only
def test_the_sampler_writes_at_most_a_line_a_second(tmp_path: Path) -> None:
    path = tmp_path / "memory.jsonl"
    sampler = MemorySampler(os.getpid(), path, interval_s=0.005)
    time.sleep(0.3)
    sampler.stop()
    times = [line["time"] for line in lines_of(path)]
    assert len(times) >= 2  # the first and the last are always there
    assert all(b - a > 0.9 for a, b in itertools.pairwise(times[:-1]))


@linux_only
def test_a_folder_that_takes_no_lines_is_remembered_and_sampling_goes_on(tmp_path: Path) -> None:
    sampler = MemorySampler(os.getpid(), tmp_path / "missing" / "memory.jsonl")
    sampler.sample()
    sampler.stop()
    assert isinstance(sampler.failure, FileNotFoundError)
    assert sampler.peak_bytes > 0
    assert not isinstance(sampler.failure, TtfError)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (MemoryError(), "not enough memory for this command"),
        (ImportError("libx.so: failed to map segment from shared object"), "to load"),
        (SystemError("<function _find_and_load> returned NULL without setting an excep"), None),
        (SystemError("_find_and_load returned NULL without setting an exception"), "to load"),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), "not enough memory"),
        (RuntimeError("can't start new thread"), "not enough memory"),
        (ImportError("cannot allocate memory in static TLS block"), None),
        (ImportError("cannot import name 'x'"), None),
        (ValueError("out of memory"), None),
    ],
    ids=str,
)
def test_what_too_little_memory_causes_is_told_only_under_a_limit(
    error: Exception, said: str | None
) -> None:
    before = resource.getrlimit(resource.RLIMIT_DATA)
    physical = limits.physical_bytes()
    grouped = any(limit.bytes < physical for _, limit in limits.group_limits())
    if not grouped and before[0] == resource.RLIM_INFINITY:
        assert too_little_memory(error) is None
    resource.setrlimit(resource.RLIMIT_DATA, (1 << 45, before[1]))
    try:
        told = too_little_memory(error)
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)
    if said is None:
        assert told is None
    else:
        assert told is not None and said in str(told) and told.exit_code == 6
        assert grouped or "RLIMIT_DATA" in str(told)
