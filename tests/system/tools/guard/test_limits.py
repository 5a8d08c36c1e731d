"""Limits that the guard keeps itself, restarts, and what it leaves behind."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import psutil
import pytest
from tests.conftest import Invoke
from tests.kit.fixtures.guard import Start
from tests.kit.guarded_command import PYTHON, alive, incident, ours, pause, summary
from tests.kit.widely import wide

ABORT = "import os; os.abort()"


def test_a_command_that_outgrows_its_limit_is_warned_about_and_ended(
    start: Start, tmp_path: Path
) -> None:
    code = """
import os, time
keep = []
for megabytes in range(400):
    keep.append(bytearray(1 << 20))
    while megabytes == 104 and not os.path.exists("warned"):
        time.sleep(0.02)
    time.sleep(0.02)
"""
    guarded = start([PYTHON, "-c", code], "--memory-limit", "120M", "--out", "watch")
    warned = guarded.until("ttf guard will end it at the limit")
    (tmp_path / "warned").touch()
    assert guarded.wait() == 143
    guarded.err = warned + guarded.err
    assert "of 120 MB (--memory-limit); ttf guard will end it at the limit" in ours(guarded.err)
    found = incident(tmp_path / "watch")
    assert (found["class"], found["signal"]) == ("memory-limit", signal.SIGTERM)
    assert "exceeded its memory limit: " in found["explanation"]
    assert summary(tmp_path / "watch")["peak_anon_mb"] >= 120
    lines = (tmp_path / "watch/memory.jsonl").read_text().splitlines()
    assert json.loads(lines[-1])["anon"] > json.loads(lines[0])["anon"]


@wide
def test_the_limit_counts_the_whole_tree_and_insists(start: Start, tmp_path: Path) -> None:
    """A worker holds it, and nobody heeds SIGTERM."""
    code = """
import signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
work = "import time; keep = bytearray(200 << 20); time.sleep(60)"
subprocess.run([sys.executable, "-c", work])
"""
    guarded = start([PYTHON, "-c", code], "--memory-limit", "100M", "--out", "watch")
    assert guarded.wait() == 137
    assert incident(tmp_path / "watch")["class"] == "memory-limit"


@pytest.mark.skipif(sys.platform != "linux", reason="stacks on demand are for Linux")
def test_a_hang_is_ended_with_everybodys_stacks(start: Start, tmp_path: Path) -> None:
    code = """
import os, subprocess, sys, time
def waits_for_the_worker(worker):
    worker.wait()
work = "import pathlib, time\\npathlib.Path('begun').touch()\\ntime.sleep(60)"
worker = subprocess.Popen([sys.executable, "-c", work])
while not os.path.exists("begun"):
    print(".", flush=True)
    time.sleep(0.1)
waits_for_the_worker(worker)
"""
    guarded = start([PYTHON, "-c", code], "--hang-timeout", "3", "--out", "watch")
    assert guarded.wait() == 137
    found = incident(tmp_path / "watch")
    assert found["class"] == "hang" and "it used almost no CPU" in found["explanation"]
    folder = tmp_path / "watch/incidents/001"
    assert "in waits_for_the_worker" in (folder / "faulthandler.txt").read_text()
    assert len(list(folder.glob("stacks-*.txt"))) == 1


@wide
def test_a_silent_computation_is_called_one(start: Start, tmp_path: Path) -> None:
    guarded = start([PYTHON, "-c", "while True: pass"], "--hang-timeout", "2", "--out", "watch")
    assert guarded.wait() == 137
    assert "of one CPU during this time" in incident(tmp_path / "watch")["explanation"]


@wide
def test_whoever_reads_or_writes_does_not_hang(start: Start) -> None:
    code = "import os, time\nfor _ in range(40): os.stat('.'), open('/proc/self/stat').read(), time.sleep(0.1)"
    assert start([PYTHON, "-c", code], "--hang-timeout", "2").wait() == 0


def test_a_crash_is_followed_by_restarts_up_to_the_bound(start: Start, tmp_path: Path) -> None:
    guarded = start([PYTHON, "-c", ABORT], "--restarts", "1", "--out", "watch")
    assert guarded.wait() == 134
    document = summary(tmp_path / "watch")
    assert (document["status"], document["exit_code"], document["restarts"]) == ("failed", 134, 1)
    assert [i["class"] for i in document["incidents"]] == ["abort", "abort"]
    assert "restarting the command in 1 s (restart 1 of 1)" in ours(guarded.err)
    assert "not restarted: that was restart 1" in ours(guarded.err)


def test_an_exit_code_that_python_chose_is_no_crash(start: Start) -> None:
    guarded = start([PYTHON, "-c", "import sys; sys.exit(2)"], "--restarts", "5")
    assert guarded.wait() == 2
    assert "the command itself chose this exit code" in ours(guarded.err)


@wide
def test_what_a_crash_left_is_ended_before_the_next_start(start: Start, tmp_path: Path) -> None:
    code = """
import os, subprocess, sys
if os.environ["TTF_GUARD_ATTEMPT"] == "1":
    sys.exit(0)
child = subprocess.Popen(["sleep", "60"], start_new_session=True)
open("ready", "w").write(str(child.pid))
os.abort()
"""
    guarded = start([PYTHON, "-c", code], "--restarts", "1")
    assert guarded.wait() == 0
    assert not alive(int((tmp_path / "ready").read_text()))


@wide
def test_the_pause_between_starts_can_be_ended(start: Start) -> None:
    guarded = start(["false"], "--until-success")
    assert guarded.process.stderr is not None
    seen = b""
    while b"restarting the command in 2 s" not in seen:
        seen += os.read(guarded.process.stderr.fileno(), 4096)
    guarded.process.terminate()
    assert guarded.wait() == 143


def test_without_out_a_folder_is_made_for_what_is_kept(start: Start, tmp_path: Path) -> None:
    # Nothing tells when its memory was looked at, four times a second.
    code = "import os, time; time.sleep(2); os.abort()"
    guarded = start([PYTHON, "-c", code], env={"OMP_NUM_THREADS": "2"})
    assert guarded.wait() == 134
    folder = tmp_path / "runs/guard-001"
    names = {"environment.json", "incidents", "memory.jsonl", "summary.json"}
    assert {p.name for p in folder.iterdir()} == names
    assert str(folder.relative_to(tmp_path)) in ours(guarded.err)
    around = json.loads((folder / "environment.json").read_text())
    assert around["processor"] and around["memory_bytes"] == psutil.virtual_memory().total
    assert around["variables"]["OMP_NUM_THREADS"] == "2" and "torch" in around["versions"]
    assert around["python_of"] == PYTHON


@wide
def test_secrets_are_not_kept(start: Start, tmp_path: Path) -> None:
    code = "import os, sys; sys.stderr.write(os.environ['API_TOKEN'] + '\\n'); os.abort()"
    words = [PYTHON, "-c", code, "hush-hush-hush"]
    guarded = start(words, "--out", "watch", env={"API_TOKEN": "hush-hush-hush"})
    assert guarded.wait() == 134
    assert b"hush-hush-hush\n" in guarded.err, "what is passed on is not changed"
    for path in (tmp_path / "watch").rglob("*"):
        assert path.is_dir() or b"hush-hush-hush" not in path.read_bytes(), path


@wide
def test_a_disk_that_takes_nothing_does_not_change_the_end(start: Start, small_disk: Path) -> None:
    code = f"import os\ntry: open({str(small_disk / 'all')!r}, 'wb').write(bytes(4 << 20))\nexcept OSError: pass\nos.abort()"
    guarded = start([PYTHON, "-c", code], "--out", str(small_disk / "watch"))
    assert guarded.wait() == 134
    assert "some files could not be saved" in ours(guarded.err)
    assert "abort" in ours(guarded.err)


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        ([], "Missing argument"),
        (
            ["--memory-limit", "8Q", "--", "true"],
            "'8Q' is not a size; write a number of bytes, for example 500M, 8G or 8GiB.",
        ),
        (["--memory-limit", "0", "--", "true"], "at least one byte"),
        (["--hang-timeout", "0", "--", "true"], "'0' is too short: at least 1 s."),
        (["--restarts", "-1", "--", "true"], "is not in the range"),
        (["--resart", "1", "--", "true"], "--restarts"),
    ],
)
def test_wrong_usage_is_said_before_anything_starts(
    invoke: Invoke, argv: list[str], said: str
) -> None:
    done = invoke(["guard", *argv])
    assert done.code == 2 and said in done.err and not done.out


def test_options_of_the_command_are_its_own(start: Start) -> None:
    guarded = start(["echo", "--help", "--out", "x", "--", "--json"])
    assert guarded.wait() == 0
    assert guarded.out == b"--help --out x -- --json\n"


@wide
def test_a_guard_that_is_stopped_for_a_while_does_not_see_a_hang(start: Start) -> None:
    code = "import time; print('up', flush=True); time.sleep(3.5)"
    guarded = start([PYTHON, "-c", code], "--hang-timeout", "2.5")
    assert guarded.process.stdout is not None
    assert guarded.process.stdout.readline() == b"up\n"
    child = guarded.child
    for pid in (guarded.process.pid, child):
        os.kill(pid, signal.SIGSTOP)
    pause(3)
    for pid in (child, guarded.process.pid):
        os.kill(pid, signal.SIGCONT)
    assert guarded.wait() == 0


def test_it_says_which_memory_grew_and_whose_it_is(start: Start, tmp_path: Path) -> None:
    code = """
import mmap, subprocess, sys, time
ready = mmap.mmap(-1, 40 << 20)          # shared anonymous memory
ready.write(bytes(b"x" * (40 << 20)))
time.sleep(0.8)                          # the first look
work = "import time\\nkeep = []\\nfor _ in range(40): keep.append(bytearray(b'x') * (4 << 20)); time.sleep(0.05)\\ntime.sleep(60)"
children = [subprocess.Popen([sys.executable, "-c", work]) for _ in range(2)]
[child.wait() for child in children]
"""
    guarded = start([PYTHON, "-c", code], "--memory-limit", "150M", "--out", "watch")
    assert guarded.wait() in (137, 143)
    said = ours(guarded.err)
    assert "Memory that grew, from " in said
    first = said[said.index("- ", said.index("Memory that grew")) :]
    assert first.startswith("- anonymous of 2 child processes: +")
    evidence = incident(tmp_path / "watch")["evidence"]
    assert [e for e in evidence if e["source"] == "mappings (smaps)"]
