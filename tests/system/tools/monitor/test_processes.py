"""Real processes, seen from outside: their memory, processor time, threads, state and role."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil  # type: ignore[import-untyped, unused-ignore]
import pytest
from tests.conftest import wait_until
from tests.kit.fixtures.monitor import Start

from ttf.errors import ConfigError, DataMissing
from ttf.process.lifeline import is_stopped
from ttf.tools.monitor import system
from ttf.tools.monitor.processes import ProcessTable, role_of
from ttf.tools.monitor.system import Raw
from ttf.tools.monitor.view import View, warnings
from ttf.tools.monitor.watch import Monitor
from ttf.tools.monitor.what_to_watch import Target, find, owner_of

MIB = 1 << 20
TICKS = os.sysconf("SC_CLK_TCK")
HOLDS = """
import mmap, subprocess, sys, threading, time
anon = bytearray(b"x" * (48 << 20))
shared = mmap.mmap(-1, 32 << 20)
shared.write(b"y" * (32 << 20))
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(100)"])
for _ in range(2):
    threading.Thread(target=time.sleep, args=(100,), daemon=True).start()
print("ready", flush=True)
while True:
    pass
"""


@pytest.mark.skipif(sys.platform != "linux", reason="macOS does not tell shared memory apart")
def test_kinds_of_memory_processor_and_threads_are_told_apart(start: Start) -> None:
    process = start(HOLDS)
    assert process.stdout is not None and process.stdout.readline() == b"ready\n"
    monitor = Monitor(find(str(process.pid)))
    assert monitor.look().cpu_percent is None, "one look is no difference"
    view = monitor.look()
    while not _is_under_way(view):  # pytest's own time limit ends a wait in vain
        view = monitor.look()
    first, child = view.processes
    assert (first.pid, first.role, first.threads) == (process.pid, "python -c", 3)
    assert 48 * MIB < (first.anon or 0) < 80 * MIB
    assert 32 * MIB <= (first.shared or 0) < 34 * MIB and (first.file or 0) > MIB
    assert first.cpu_percent is not None and first.cpu_percent > 10
    assert child.role == "python -c" and (child.anon or 0) < 20 * MIB and child.state == "sleeping"
    assert view.memory is not None and view.memory.processes == 2
    assert view.memory.held >= (first.anon or 0) + (first.shared or 0)
    assert view.limit is not None and view.limit.bytes > view.limit.held > 0
    assert view.run is None and view.status == "running" and view.remarks == ()


def _is_under_way(view: View) -> bool:
    """The first computes, its child sleeps."""
    first, child = view.processes
    return (first.cpu_percent or 0) > 10 and child.state == "sleeping"


def test_a_stopped_process_is_named_with_what_lets_it_go_on(
    waiting: subprocess.Popen[bytes],
) -> None:
    os.kill(waiting.pid, signal.SIGSTOP)
    wait_until(lambda: is_stopped(waiting.pid))
    view = Monitor(find(str(waiting.pid))).look()
    assert f"kill -CONT {waiting.pid}" in next(warnings(view))


def test_the_end_of_a_process_is_seen_also_while_it_is_a_zombie(
    waiting: subprocess.Popen[bytes],
) -> None:
    monitor = Monitor(find(str(waiting.pid)))
    assert monitor.look().alive
    waiting.kill()
    wait_until(lambda: system.started(waiting.pid) is None)
    view = monitor.look()
    assert (view.alive, view.status, view.processes) == (False, "ended", ())
    with pytest.raises(ConfigError, match="has ended. Only its exit code is left"):
        find(str(waiting.pid))
    waiting.wait()
    with pytest.raises(ConfigError, match=f"There is no process {waiting.pid}."):
        find(str(waiting.pid))


@pytest.mark.parametrize("number", ["0", "4194305", "99999999999999999999"])
def test_numbers_that_are_no_process_are_refused(number: str) -> None:
    with pytest.raises(ConfigError, match=f"There is no process {int(number)}."):
        find(number)


@pytest.mark.skipif(sys.platform != "linux", reason="compares with /proc")
def test_what_is_said_of_a_process_is_what_proc_says(waiting: subprocess.Popen[bytes]) -> None:
    wait_until(lambda: system.read(waiting.pid)[0].state == "sleeping")
    (found,) = system.read(waiting.pid)
    proc = Path(f"/proc/{waiting.pid}")
    fields = (proc / "stat").read_text().rpartition(")")[2].split()
    parent, session, threads = (int(fields[i]) for i in (1, 3, 17))
    assert (found.parent, found.session, found.threads) == (parent, session, threads)
    assert found.words == tuple((proc / "cmdline").read_text().rstrip("\0").split("\0"))
    assert found.cpu_s == pytest.approx((int(fields[11]) + int(fields[12])) / TICKS, abs=0.1)
    booted = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    assert system.started(waiting.pid) == pytest.approx(booted + int(fields[19]) / TICKS, abs=1.5)
    assert system.read(4194305) == [] and system.started(4194305) is None
    assert system.owner(os.getpid()) is None


def test_memory_as_macos_tells_it_is_told_here_as_well(waiting: subprocess.Popen[bytes]) -> None:
    anon, shared, file = system.memory_by_psutil(psutil.Process(waiting.pid))
    assert anon is not None and 0 < anon < 100 * MIB
    assert (shared, file is not None and file >= 0) == (0, True)


def raw(*words: str, session: int = 7) -> Raw:
    return Raw(
        pid=7, parent=1, session=session, started=0.0, words=words, state="running", threads=1,
        cpu_s=0.0, anon=0, shared=0, file=0,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("process", "role"),
    [
        (raw("python", "-m", "ttf.training.launch", "7", "12"), "trainer"),
        (raw("python", "-m", "ttf.training.launch", "7", "12", session=6), "keeper"),
        (raw("python", "-P", "-m", "ttf.mining.worker_main", "3"), "miner worker"),
        (raw("python", "-P", "-m", "ttf.mining.worker_main", "3", session=6), "keeper"),
        (raw("/usr/bin/python3.11", "-m", "ttf", "train", "run.toml"), "ttf train"),
        (raw("/venv/bin/python", "/venv/bin/ttf", "guard", "--", "x"), "ttf guard"),
        (raw("python", "-u", "/home/a/train.py", "--lr", "1"), "train.py"),
        (raw("python", "-m", "torch.distributed.run", "train.py"), "torch.distributed.run"),
        (raw("python", "-c", "import x"), "python -c"),
        (raw("python", "-c", "from multiprocessing.spawn import spawn_main; x"), "spawned worker"),
        (raw("python", "-c", "from multiprocessing.resource_tracker import main"),
         "resource tracker"),
        (raw("/usr/bin/rsync", "-a"), "rsync"),
        (raw("\x1b[2Jevil"), "\\x1b[2Jevil"),
        (raw("python"), "python"),
    ],
)  # fmt: skip
def test_roles_are_read_from_command_lines(process: Raw, role: str) -> None:
    assert role_of(process, ()) == role


def test_a_fork_of_a_command_is_its_worker() -> None:
    words = ("python", "train.py")
    assert role_of(raw(*words), words) == "forked worker"
    assert role_of(raw("bash", "run.sh"), ("bash", "run.sh")) == "bash"


def _hides_processes() -> bool:
    """/proc is mounted with hidepid: one user does not see the processes of another."""
    mounts = Path("/proc/mounts")
    lines = mounts.read_text().splitlines() if mounts.exists() else []
    options = [line.split()[3] for line in lines if line.split()[1] == "/proc"]
    return any(re.search(r"hidepid=(?!0|off)", text) for text in options)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can look as somebody else")
@pytest.mark.skipif(_hides_processes(), reason="hidepid: nobody sees a process of root here")
def test_of_another_users_process_what_can_be_seen_is_shown_and_the_rest_is_said(
    start: Start, waiting: subprocess.Popen[bytes]
) -> None:
    """nobody looks at a process of root."""
    code = (
        "import os, sys\n"
        "from ttf.tools.monitor.what_to_watch import find\n"
        "from ttf.tools.monitor.watch import Monitor\n"
        "import pwd; Monitor(find(str(os.getpid()))).look()  # nobody may not read this checkout\n"
        "os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "view = Monitor(find(sys.argv[1])).look()\n"
        "print(view.processes[0].anon > 1 << 20, view.limit is not None, view.remarks)\n"
    )
    done = start(code, waiting.pid, stderr=subprocess.PIPE)
    out, err = done.communicate(timeout=60)
    assert out.startswith(b"True True ('The process belongs to root."), (out, err)


def test_a_number_that_was_given_to_another_process_is_not_the_owner(tmp_path: Path) -> None:
    note = tmp_path / ".owner"
    note.write_text(str(os.getpid()))
    assert owner_of(tmp_path) == os.getpid()
    os.utime(note, (1e9, 1e9))  # written long before this process was started
    assert owner_of(tmp_path) is None
    note.write_text("")
    assert owner_of(tmp_path) is None


def test_folders_that_are_no_runs_are_refused_with_a_hint(tmp_path: Path) -> None:
    with pytest.raises(DataMissing, match="is not a run folder"):
        find(str(tmp_path))
    (tmp_path / "run-001").mkdir()
    (tmp_path / "run-001/run.toml").touch()
    with pytest.raises(DataMissing, match=r"run-001 is a run folder"):
        find(str(tmp_path))
    with pytest.raises(DataMissing, match="Did you mean 'run-001'"):
        find(str(tmp_path / "run-01"))
    (tmp_path / "guard").mkdir()
    (tmp_path / "guard/memory.jsonl").touch()
    with pytest.raises(DataMissing, match="is a folder of ttf guard"):
        find(str(tmp_path / "guard"))
    with pytest.raises(DataMissing, match="is a file"):
        find(str(tmp_path / "run-001/run.toml"))
    assert find(str(tmp_path / "run-001")) == Target(folder=tmp_path / "run-001", pid=None)


def test_processes_that_come_and_go_at_once_do_not_disturb(start: Start) -> None:
    code = (
        "import subprocess, sys\nprint('ready', flush=True)\nwhile True: subprocess.run(['true'])"
    )
    process = start(code)
    assert process.stdout is not None and process.stdout.readline() == b"ready\n"
    table, ends_at = ProcessTable(), time.monotonic() + 1
    while time.monotonic() < ends_at:
        assert table.look(process.pid)[0].pid == process.pid


def test_our_own_process_can_be_looked_at() -> None:
    looked = threading.Event()
    thread = threading.Thread(target=looked.wait)
    thread.start()
    view = Monitor(find(str(os.getpid()))).look()
    looked.set()
    thread.join()
    assert view.alive and view.threads >= 2


def test_a_run_folder_named_by_a_number_needs_its_path(tmp_path: Path) -> None:
    folder = tmp_path / "123"
    folder.mkdir()
    (folder / "run.toml").touch()
    assert find(f"{tmp_path}/123").folder == folder
