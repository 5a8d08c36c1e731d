"""How near the limit is, against real allocations, real page cache, real limits and real groups."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.kit.memory_group import memory_group

from ttf.machine.memory import watch
from ttf.machine.memory.limits import Limit, limit_in_force
from ttf.machine.memory.tree import Device, Place
from ttf.machine.memory.watch import Gauge, MemoryCurve, Reading

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
MB = 1 << 20
GB = 1 << 30
SLACK = 24 * MB
"""An interpreter, and what the kernel has not yet counted."""


@contextmanager
def child(code: str, *args: str | Path) -> Iterator[subprocess.Popen[str]]:
    """A Python process that has done `code` and waits until the end of the block. `join(group)`
    enters a cgroup."""
    script = (
        "import mmap, os, resource, sys\n"
        "def join(group): open(group + '/cgroup.procs', 'w').write(str(os.getpid()))\n"
        f"{code}\nprint('ready', flush=True)\nsys.stdin.read()\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script, *map(str, args)],
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


@pytest.fixture
def big_file() -> Iterator[Path]:
    """On a disk: on tmpfs its pages would be shared memory, which cannot be dropped."""
    path = Path(__file__).parent / f".page-cache-{os.getpid()}"
    try:
        with path.open("wb") as file:
            for _ in range(160):
                file.write(bytes(MB))
        yield path
    finally:
        path.unlink(missing_ok=True)


# --- a real group -------------------------------------------------------------------------------


@pytest.fixture
def group() -> Iterator[Path]:
    """A cgroup of version 1 that may use 400 MB."""
    with memory_group(400) as made:
        yield made.folder


def test_allocated_memory_uses_up_the_limit_of_the_childs_group(group: Path) -> None:
    with child("join(sys.argv[1]); block = bytearray(os.urandom(1)) * (200 << 20)", group) as held:
        reading = Gauge(held.pid).read()
        assert reading.held == pytest.approx(200 * MB, abs=SLACK)
        assert reading.limit == 400 * MB
        assert reading.share == reading.held / reading.limit
        assert reading.source == f"cgroup /memory/{group.name} (memory.limit_in_bytes)"
        assert reading.text.endswith(f" of 419 MB, {reading.source}")
        assert limit_in_force(pid=held.pid) == (400 * MB, reading.source)
        # The reader is not in that group.
        assert group.name not in Gauge(os.getpid()).read().source
        assert group.name not in limit_in_force().source


def test_memory_of_others_in_the_group_uses_up_the_limit_too(group: Path) -> None:
    with child("join(sys.argv[1])", group) as ours:
        gauge = Gauge(ours.pid)
        gauge.read()
        with child("join(sys.argv[1]); block = bytearray(b'x') * (200 << 20)", group):
            reading = gauge.read()
            assert group.name in reading.source
            assert reading.held == pytest.approx(200 * MB, abs=SLACK)


def test_the_page_cache_of_a_file_that_was_read_is_no_pressure(group: Path, big_file: Path) -> None:
    # Cache that somebody else brought in is charged to them: drop it first.
    with big_file.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    code = (
        "join(sys.argv[1])\n"
        "f = open(sys.argv[2], 'rb')\n"
        "while f.read(1 << 20): pass\n"
        "m = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ)\n"
        "sum(m[i] for i in range(0, len(m), 4096))\n"
    )
    with child(code, group, big_file) as reads:
        used = int(group.joinpath("memory.usage_in_bytes").read_text())
        if used < 150 * MB:
            pytest.skip("the page cache of this file system is not charged to who reads it")
        gauge = Gauge(reads.pid)
        shares = {name: reading for name, reading in _by_source(gauge).items() if "cgroup" in name}
        assert [reading.held < SLACK for reading in shares.values()] == [True]


def test_a_file_on_tmpfs_is_pressure(group: Path) -> None:
    path = Path(f"/dev/shm/ttf-test-{os.getpid()}")
    try:
        code = "join(sys.argv[1]); open(sys.argv[2], 'wb').write(bytes(100 << 20))"
        with child(code, group, path) as writes:
            (reading,) = [
                r for name, r in _by_source(Gauge(writes.pid)).items() if "cgroup" in name
            ]
            assert reading.held == pytest.approx(100 * MB, abs=SLACK)
    finally:
        path.unlink(missing_ok=True)


def _by_source(gauge: Gauge) -> dict[str, Reading]:
    gauge.read()
    readings = [gauge._physical(), *gauge._of_groups(), *gauge._of_processes()]
    return {reading.source: reading for reading in readings}


# --- limits of a process ------------------------------------------------------------------------


def limited(name: str, bytes_: int) -> str:
    return f"resource.setrlimit(resource.{name}, ({bytes_}, {bytes_}))\n"


def test_a_mapped_file_uses_up_address_space(big_file: Path) -> None:
    maps = "f = open(sys.argv[1], 'rb'); m = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ)"
    with child(limited("RLIMIT_AS", 400 * MB)) as bare:
        before = _by_source(Gauge(bare.pid))[f"RLIMIT_AS of process {bare.pid}"]
    with child(limited("RLIMIT_AS", 400 * MB) + maps, big_file) as mapped:
        after = Gauge(mapped.pid).read()
    assert after.source == f"RLIMIT_AS of process {mapped.pid}"
    assert after.limit == 400 * MB
    assert after.held - before.held == pytest.approx(160 * MB, abs=SLACK)


def test_a_mapped_file_is_no_data_but_what_is_allocated_is(big_file: Path) -> None:
    maps = "f = open(sys.argv[1], 'rb'); m = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ)\n"
    maps += "sum(m[i] for i in range(0, len(m), 4096))"
    with child(limited("RLIMIT_DATA", 300 * MB) + maps, big_file) as mapped:
        source = f"RLIMIT_DATA of process {mapped.pid}"
        assert _by_source(Gauge(mapped.pid))[source].held < SLACK
    with child(limited("RLIMIT_DATA", 300 * MB) + "b = bytearray(200 << 20)") as full:
        reading = Gauge(full.pid).read()
        assert reading.source == f"RLIMIT_DATA of process {full.pid}"
        assert reading.held == pytest.approx(200 * MB, abs=SLACK)
        assert reading.share > 0.6


def test_a_limit_of_a_grandchild_counts_and_the_readers_own_does_not() -> None:
    code = (
        "import subprocess\n"
        "inner = 'import resource, sys; resource.setrlimit(resource.RLIMIT_DATA, (300 << 20,) * 2)'"
        "\ninner += '; b = bytearray(200 << 20); print(1, flush=True); sys.stdin.read()'\n"
        "p = subprocess.Popen([sys.executable, '-c', inner], stdin=subprocess.PIPE, "
        "stdout=subprocess.PIPE)\n"
        "p.stdout.readline()"
    )
    with child(code) as outer:
        reading = Gauge(outer.pid).read()
        assert reading.source.startswith("RLIMIT_DATA of process ")
        assert reading.source != f"RLIMIT_DATA of process {outer.pid}"
        assert reading.held == pytest.approx(200 * MB, abs=SLACK)
    limits_itself = (
        limited("RLIMIT_DATA", GB)
        + "from ttf.machine.memory.watch import Gauge\n"
        + "print(Gauge(os.getppid()).read().source)"
    )
    # Below a process of its own: our parent has the children of other tests, with their limits.
    alone = (
        "import subprocess, sys; subprocess.run([sys.executable, '-c', sys.argv[1]], check=True)"
    )
    done = subprocess.run(
        [sys.executable, "-c", alone, "import os, resource\n" + limits_itself],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "RLIMIT" not in done.stdout


# --- what is not a real machine -----------------------------------------------------------------


def fake_root(tmp_path: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def meminfo(total: int, available: int, swap: int = 0, dirty: int = 0) -> dict[str, str]:
    values = {
        "MemTotal": total,
        "MemFree": 100 * MB,
        "MemAvailable": available,
        "Buffers": 0,
        "Cached": 9 * GB,
        "SwapTotal": 2 * swap,
        "SwapFree": swap,
        "Dirty": dirty,
    }
    text = "".join(f"{key + ':':16}{value >> 10:8} kB\n" for key, value in values.items())
    return {"proc/meminfo": text}


V2_STAT = """anon {anon}
file {file}
kernel 1048576
file_mapped 123
file_dirty 99
shmem {shmem}
anon_thp 77
inactive_anon 1
"""


def test_a_group_of_version_2_is_full_of_anonymous_and_shared_memory(tmp_path: Path) -> None:
    stat = V2_STAT.format(anon=600 * MB, file=3 * GB, shmem=200 * MB)
    pid = os.getpid()
    root = fake_root(
        tmp_path,
        {
            f"proc/{pid}/cgroup": "0::/job/task\n",
            "proc/self/cgroup": "0::/elsewhere\n",
            "sys/fs/cgroup/elsewhere/memory.max": "1\n",
            "sys/fs/cgroup/elsewhere/memory.stat": stat,
            "sys/fs/cgroup/job/memory.max": f"{1000 * MB}\n",
            "sys/fs/cgroup/job/memory.stat": stat,
            "sys/fs/cgroup/job/task/memory.max": "max\n",
            "sys/fs/cgroup/job/task/memory.stat": "anon 1\nshmem 1\n",
            **meminfo(16 * GB, 12 * GB),
        },
    )
    reading = Gauge(pid, root=root).read()
    source = "cgroup /job (memory.max)"
    text = f"839 MB of 1.0 GB, {source}"
    assert reading == (0.8, 800 * MB, 1000 * MB, source, text)


def test_the_ancestor_that_is_nearest_to_its_limit_is_named(tmp_path: Path) -> None:
    pid = os.getpid()
    files = {f"proc/{pid}/cgroup": "0::/a/b\n", **meminfo(16 * GB, 12 * GB)}
    for name, limit, held in (("a", 2000, 1500), ("a/b", 1000, 600)):
        files[f"sys/fs/cgroup/{name}/memory.max"] = str(limit * MB)
        files[f"sys/fs/cgroup/{name}/memory.stat"] = f"anon {held * MB}\nfile 0\n"
    gauge = Gauge(pid, root=fake_root(tmp_path, files))
    assert (gauge.read().share, gauge.read().source) == (0.75, "cgroup /a (memory.max)")


def test_a_group_that_went_away_is_no_limit_any_more(tmp_path: Path) -> None:
    pid = os.getpid()
    root = fake_root(
        tmp_path,
        {
            f"proc/{pid}/cgroup": "0::/job\n",
            "sys/fs/cgroup/job/memory.max": f"{MB}\n",
            "sys/fs/cgroup/job/memory.stat": f"anon {MB}\nshmem 0\n",
            **meminfo(16 * GB, 12 * GB),
        },
    )
    gauge = Gauge(pid, root=root)
    assert gauge.read().share == 1.0
    (root / "sys/fs/cgroup/job/memory.stat").unlink()
    assert gauge.read().source == "physical memory"


def test_version_1_says_none_with_a_number_beyond_any_memory(tmp_path: Path) -> None:
    pid = os.getpid()
    root = fake_root(
        tmp_path,
        {
            f"proc/{pid}/cgroup": "4:memory:/job\n",
            "sys/fs/cgroup/memory/job/memory.limit_in_bytes": "9223372036854771712\n",
            "sys/fs/cgroup/memory/job/memory.stat": "total_rss 7\ntotal_shmem 7\n",
            **meminfo(16 * GB, 12 * GB),
        },
    )
    gauge = Gauge(pid, root=root)
    assert gauge.read().source == "physical memory" and gauge._groups == ()


@pytest.mark.parametrize("dirty", [0, 6 * GB])
def test_what_others_hold_is_gone_and_page_cache_is_not_clean_or_dirty(
    tmp_path: Path, dirty: int
) -> None:
    root = fake_root(tmp_path, meminfo(16 * GB, 12 * GB, dirty=dirty))
    reading = Gauge(os.getpid(), root=root).read()
    assert reading.share == 0.25
    assert reading.text == "4.3 GB of 17.2 GB, physical memory"


def test_free_swap_is_room(tmp_path: Path) -> None:
    root = fake_root(tmp_path, meminfo(16 * GB, 0, swap=16 * GB))
    assert Gauge(os.getpid(), root=root).read().share == 0.5


def test_a_process_that_is_gone_is_named() -> None:
    with child("pass") as process:
        gauge = Gauge(process.pid)
        assert 0 < gauge.read().share < 1
    with pytest.raises(ProcessLookupError, match=str(process.pid)):
        Gauge(process.pid).read()


# --- the curve ----------------------------------------------------------------------------------


def test_the_curve_writes_a_line_a_second_and_keeps_every_look(tmp_path: Path) -> None:
    path = tmp_path / "memory.jsonl"
    with child("block = bytearray(b'x') * (48 << 20)") as process:
        curve = MemoryCurve(process.pid, path, place=lambda: Place(7, "forward", Device(5, 6)))
        assert list(curve.points) == [] and curve.held_bytes == 0
        looks = [curve.look() for _ in range(20)]
        curve.look(line=True)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert len(lines) == 2 or all(
        b["time"] - a["time"] > 0.9 for a, b in itertools.pairwise(lines[:-1])
    )
    assert list(lines[0]) == [
        "time", "step", "anon", "shared", "file", "processes", "peak", "limit",
        "phase", "device_allocated", "device_cached", "available", "swap_used", "swap_free",
    ]  # fmt: skip
    assert len(curve.points) == 21 and len(looks) == 20
    last = curve.points[-1]
    assert (last.step, last.limit) == (7, curve.limit.bytes)
    assert last.held == curve.held_bytes > 48 * MB
    assert curve.peak_bytes == max(point.held for point in curve.points) == lines[-1]["peak"]


def test_the_curve_keeps_ten_minutes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    curve = MemoryCurve(os.getpid(), tmp_path / "memory.jsonl")
    now, began = time.time(), time.monotonic()
    for seconds in range(0, 1500, 10):
        monkeypatch.setattr(time, "time", lambda at=now + seconds: at)
        monkeypatch.setattr(time, "monotonic", lambda at=began + seconds: at)
        curve.look()
    times = [point.time for point in curve.points]
    assert len(times) == 61 and times[-1] - times[0] == pytest.approx(600)


def test_the_curve_knows_the_limit_of_the_process_it_looks_at(tmp_path: Path) -> None:
    with child(limited("RLIMIT_DATA", 300 * MB)) as process:
        curve = MemoryCurve(process.pid, tmp_path / "memory.jsonl")
        assert curve.limit == (300 * MB, "RLIMIT_DATA")


def test_the_curve_goes_on_where_the_disk_takes_no_lines(tmp_path: Path) -> None:
    curve = MemoryCurve(os.getpid(), tmp_path / "missing" / "memory.jsonl")
    curve.look()
    curve.look(line=True)
    assert isinstance(curve.failure, FileNotFoundError) and len(curve.points) == 2


def test_the_curve_ends_with_its_process(tmp_path: Path) -> None:
    with child("pass") as process:
        curve = MemoryCurve(process.pid, tmp_path / "memory.jsonl")
        curve.look()
    with pytest.raises(ProcessLookupError):
        curve.look()
    assert len(curve.points) == 1


def test_looking_at_memory_is_light() -> None:
    code = "import sys, ttf.machine.memory.watch; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"torch", "numpy", "pydantic", "rich"} & set(done.stdout.split())


def test_a_zombie_keeps_the_limit_that_it_had(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel counts a zombie to the top group, which has no limit."""
    monkeypatch.setattr(watch, "LOOK_AGAIN_S", 0.0)
    curve = MemoryCurve(os.getpid(), tmp_path / "memory.jsonl")
    curve.limit_of = lambda: Limit(700, "cgroup /job (memory.max)")
    curve.look()
    with child("pass") as ended:
        ended.kill()
        os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
        curve.limited_pid = ended.pid
        curve.limit_of = lambda: Limit(900, "physical memory")
        curve.look()
    assert (curve.limit.bytes, curve.points[-1].limit) == (700, 700)
    curve.limited_pid = os.getpid()
    curve.look()
    assert curve.limit.bytes == 900
