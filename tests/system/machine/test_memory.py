"""Memory figures against real allocations, real shared memory and real child processes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import shared_memory
from pathlib import Path

import psutil
import pytest
from tests.unit.machine.test_memory import MB, SLACK, lines_of, linux_only

from ttf.machine.memory._linux import LinuxTree, descendants
from ttf.machine.memory.sampler import MemorySampler
from ttf.machine.memory.tree import Device, Place
from ttf.machine.memory.watch import tree_reader
from ttf.process.child import inherited


@contextmanager
def child(code: str, *args: str) -> Iterator[subprocess.Popen[str]]:
    """A Python process that has done `code` and waits until the end of the block."""
    script = f"import sys\n{code}\nprint('ready', flush=True)\nsys.stdin.read()\n"
    process = subprocess.Popen(
        [sys.executable, "-c", script, *args],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None and process.stdout is not None
    try:
        line = process.stdout.readline().strip()
        assert line == "ready", line
        yield process
    finally:
        process.stdin.close()
        process.wait()
        process.stdout.close()


@linux_only
def test_figures_of_a_child_are_those_of_its_status_file() -> None:
    with child("block = bytearray(48 << 20)") as process:
        memory = tree_reader(process.pid)()
        status = dict(
            line.split(":", 1)
            for line in Path(f"/proc/{process.pid}/status").read_text().splitlines()
        )
        assert memory.anon == int(status["RssAnon"].split()[0]) << 10
        assert memory.file == int(status["RssFile"].split()[0]) << 10
        assert memory.shared == int(status["RssShmem"].split()[0]) << 10
        assert memory.anon > 48 * MB
        assert memory.processes == 1
        assert memory.held == memory.anon + memory.shared


@linux_only
def test_children_and_grandchildren_count() -> None:
    nested = (
        "import subprocess\n"
        "inner = subprocess.Popen([sys.executable, '-c', "
        "'import sys; b = bytearray(40 << 20); print(1, flush=True); sys.stdin.read()'], "
        "stdin=subprocess.PIPE, stdout=subprocess.PIPE)\n"
        "inner.stdout.readline()\n"
        "block = bytearray(24 << 20)"
    )
    before = tree_reader(os.getpid())()
    with child(nested) as process:
        memory = tree_reader(os.getpid())()
        assert memory.processes == before.processes + 2
        assert memory.anon - before.anon > 64 * MB
        assert len(descendants(process.pid)) == 2
        assert tree_reader(process.pid)().anon > 64 * MB


@linux_only
def test_pages_that_two_processes_share_count_once() -> None:
    block = shared_memory.SharedMemory(create=True, size=32 * MB)
    try:
        before = tree_reader(os.getpid())().shared
        assert block.buf is not None
        block.buf[:] = bytes(32 * MB)
        touch = (
            "import mmap\n"
            "f = open(sys.argv[1], 'rb')\n"
            "m = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ)\n"
            "total = sum(m[i] for i in range(0, len(m), 4096))"
        )
        name = f"/dev/shm/{block.name.lstrip('/')}"
        reader = LinuxTree(os.getpid())
        with child(touch, name), child(touch, name):
            assert tree_reader(os.getpid())().shared - before == pytest.approx(32 * MB, abs=SLACK)
            # The second call uses the overlap of the first.
            assert reader().shared == pytest.approx(reader().shared, abs=SLACK)
            assert reader().shared - before == pytest.approx(32 * MB, abs=SLACK)
        assert reader().shared - before == pytest.approx(32 * MB, abs=SLACK)
    finally:
        block.close()
        block.unlink()


@linux_only
def test_a_process_that_is_gone_is_named() -> None:
    with child("pass") as process:
        pid = process.pid
    with pytest.raises(ProcessLookupError, match=str(pid)):
        tree_reader(pid)()


def test_an_rlimit_is_a_limit() -> None:
    code = (
        "import resource; resource.setrlimit(resource.RLIMIT_DATA, (3 << 30, 3 << 30)); "
        "from ttf.machine.memory.limits import limit_in_force as f; print(*f())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(3 << 30), "RLIMIT_DATA"]


@linux_only
def test_the_sampler_keeps_the_peak_of_the_whole_tree(tmp_path: Path) -> None:
    path = tmp_path / "memory.jsonl"
    sampler = MemorySampler(
        os.getpid(), path, interval_s=0.01, place=lambda: Place(7, "forward", Device(5, 6))
    )
    before = sampler.held_bytes
    with child("block = bytearray(64 << 20)"):
        assert sampler.sample().held - before > 64 * MB
    sampler.stop()
    sampler.stop()
    assert sampler.peak_bytes - before > 64 * MB
    first, last = lines_of(path)[0], lines_of(path)[-1]
    assert first["step"] == 7
    assert set(first) == {
        "time", "step", "anon", "shared", "file", "processes", "peak", "limit",
        "phase", "device_allocated", "device_cached", "available", "swap_used", "swap_free",
    }  # fmt: skip
    assert (first["phase"], first["device_allocated"], first["device_cached"]) == ("forward", 5, 6)
    free = psutil.virtual_memory().available
    assert free / 4 < first["available"] < 4 * free
    assert first["swap_used"] + first["swap_free"] == psutil.swap_memory().total
    assert last["peak"] == sampler.peak_bytes
    assert last["anon"] + last["shared"] < last["peak"]


@linux_only
def test_the_sampler_ends_when_its_process_does(tmp_path: Path) -> None:
    with child("pass") as process:
        sampler = MemorySampler(process.pid, tmp_path / "memory.jsonl", interval_s=0.01)
    sampler._thread.join(timeout=30)
    assert not sampler._thread.is_alive()
    sampler.stop()
    assert sampler.peak_bytes > 0


SPAWNING = """
import subprocess, sys
block = bytearray(b"x" * (150 << 20))
print("ready", flush=True)
while True:
    subprocess.run(["true"])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="vfork and kcmp are Linux's")
def test_a_child_that_is_about_to_be_another_program_is_not_counted_as_its_parent_twice() -> None:
    from ttf.machine.memory import _linux

    if not _linux.one_memory(os.getpid(), os.getpid()):
        pytest.skip("this kernel does not tell who shares an address space")
    process = subprocess.Popen([sys.executable, "-c", SPAWNING], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        reader = LinuxTree(process.pid)
        seen = [reader().anon for _ in range(2000)]
    finally:
        process.kill()
        process.communicate()
    assert max(seen) < 1.5 * (150 << 20), "the same pages were counted twice"


# Does the map that holds a new array have the flag "hg", by which numpy asks for huge pages?
LARGE_ARRAY = """
import numpy as np
array = np.ones(16 << 20, dtype=np.uint8)
middle, inside = array.ctypes.data + (8 << 20), False
for line in open("/proc/self/smaps"):
    words = line.split()
    if "-" in words[0]:
        low, high = (int(part, 16) for part in words[0].split("-"))
        inside = low <= middle < high
    elif inside and words[0] == "VmFlags:":
        print("hg" in words)
"""


@pytest.mark.skipif(
    not Path("/sys/kernel/mm/transparent_hugepage").exists(), reason="this kernel has none"
)
def test_large_arrays_of_a_child_ask_for_no_huge_pages() -> None:
    # The kernel would fill holes in the heap with them that were given back: memory that grows.
    asks = [
        subprocess.check_output([sys.executable, "-c", LARGE_ARRAY], env=env, text=True).strip()
        for env in (inherited(), {**inherited(), "NUMPY_MADVISE_HUGEPAGE": "1"})
    ]
    assert asks == ["False", "True"]
