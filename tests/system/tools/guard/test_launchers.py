"""What dies below a launcher is named, with its last words, and the command's exit code stays."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from tests.kit.fixtures.guard import Start
from tests.kit.guarded_command import PYTHON, incident, ours, summary

pytestmark = [pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")]
CRASH = "print('the last line')\nctypes.string_at(0)\n"
NATIVE = """
print('the last line')
os.write(2, b"OMP: Error #15: Initializing liba.so, but found libb.so already initialized.\\n")
os.abort()
"""
NAN = "print('the last line')\nraise ValueError('loss is nan at step 12')\n"
WAITS_FOR_TEE = """
while not os.path.exists("run.log"):
    time.sleep(0.01)
"""
"""A pipeline is complete once its last program has opened its file."""

IS_WATCHED = """
def is_watched():
    folder = f"/proc/{os.environ['TTF_GUARD_PID']}/fdinfo"
    for name in os.listdir(folder):
        try:
            with open(f"{folder}/{name}") as file:
                if f"Pid:\\t{os.getpid()}\\n" in file.read():
                    return True
        except OSError:
            pass
    return False
while not is_watched():
    time.sleep(0.01)
"""
"""The guard holds a descriptor of this process."""


def _script(folder: Path, code: str) -> None:
    (folder / "train.py").write_text(f"import ctypes, os, sys, time\n{code}")


def _said(folder: Path) -> str:
    paths = [folder / "incidents/001" / name for name in ("stderr.txt", "stdout.txt")]
    return "".join(path.read_text() for path in paths if path.exists())


def test_a_crash_that_a_pipeline_hid_is_an_incident_of_a_command_that_finished(
    start: Start, tmp_path: Path
) -> None:
    _script(tmp_path, WAITS_FOR_TEE + CRASH)
    line = f"sleep 0.5; {PYTHON} train.py 2>&1 | tee run.log"
    guarded = start(["bash", "-c", line], "--out", "watch")
    assert guarded.wait() == 0
    document = summary(tmp_path / "watch")
    assert (document["status"], document["exit_code"], document["hidden"]) == (
        "finished",
        0,
        ["001"],
    )
    found = incident(tmp_path / "watch")
    assert (found["class"], found["hidden"]) == ("segfault", True)
    assert found["age_s"] < document["wall_s"] - 0.4  # of the script, not of bash
    assert "a pipeline or a script hid this death" in ours(guarded.err)
    assert "To see the native function that crashed: ttf guard --core" in ours(guarded.err)
    assert "the last line" in _said(tmp_path / "watch")


@pytest.mark.parametrize(
    "line",
    ["{python} train.py > run.log 2>&1; exit 7", "nohup {python} train.py > run.log 2>&1 & wait"],
    ids=["a script with a code of its own", "nohup"],
)
def test_words_that_native_code_wrote_to_a_file_name_the_class(
    start: Start, tmp_path: Path, line: str
) -> None:
    _script(tmp_path, NATIVE)
    guarded = start(["bash", "-c", line.format(python=PYTHON)], "--out", "watch")
    assert guarded.wait() == (7 if "exit 7" in line else 0)
    assert incident(tmp_path / "watch")["class"] == "omp-duplicate"
    assert "the last line" in _said(tmp_path / "watch")


def test_an_exception_below_make_is_the_cause_and_one_below_a_success_is_none(
    start: Start, tmp_path: Path
) -> None:
    _script(tmp_path, NAN)
    (tmp_path / "Makefile").write_text(f"train:\n\t@{PYTHON} train.py > run.log 2>&1\n")
    guarded = start(["make", "train"], "--out", "watch")
    assert guarded.wait() == 2
    found = incident(tmp_path / "watch")
    assert (found["class"], found["certain"]) == ("non-finite", False)
    assert "loss is nan at step 12" in _said(tmp_path / "watch")
    guarded = start(["bash", "-c", f"{PYTHON} train.py 2> run.log || true"], "--out", "other")
    assert guarded.wait() == 0
    assert summary(tmp_path / "other")["incidents"] == []


REFUSED = """
try:
    held = bytearray(10**9)
except MemoryError as error:
    TELL
"""
"""TELL is the way in which the script tells it."""
TORCH_SAYS = "[enforce fail at alloc_cpu.cpp:127] . DefaultCPUAllocator: can't allocate memory"


@pytest.mark.parametrize("tell", ["raise", f'raise RuntimeError("{TORCH_SAYS}") from None'])
def test_memory_that_was_refused_is_an_incident_though_a_pipeline_hid_it(
    start: Start, tmp_path: Path, tell: str
) -> None:
    _script(tmp_path, REFUSED.replace("TELL", tell))
    line = f"sleep 1; ulimit -v 900000; {PYTHON} train.py 2>&1 | tee run.log"
    guarded = start(["bash", "-c", line], "--out", "watch", "--restarts", "1")
    assert guarded.wait() == 0
    document = summary(tmp_path / "watch")
    assert (document["status"], document["hidden"]) == ("finished", ["001"])
    found = incident(tmp_path / "watch")
    assert (found["class"], found["hidden"], found["certain"]) == ("alloc-failure", True, False)
    assert found["age_s"] < document["wall_s"] - 0.9
    assert "not restarted: the command ended with exit code 0" in ours(guarded.err)


@pytest.mark.parametrize("when", ["at the start", "later"])
def test_the_limit_of_a_script_and_the_line_that_was_refused_are_told(
    start: Start, tmp_path: Path, when: str
) -> None:
    _script(tmp_path, IS_WATCHED + REFUSED.replace("TELL", "raise"))
    late = "" if when == "at the start" else "sleep 0.3; "
    line = f"{late}ulimit -v 900000; {PYTHON} train.py > run.log 2>&1; exit 1"
    guarded = start(["bash", "-c", line], "--out", "watch")
    assert guarded.wait() == 1
    told = ours(guarded.err)
    lines = (tmp_path / "train.py").read_text().splitlines()
    number = next(i for i, text in enumerate(lines, 1) if "bytearray" in text)
    assert f"The message: MemoryError, at {tmp_path}/train.py:{number} in <module>" in told
    assert "could get at most 922 MB (RLIMIT_AS, ulimit -v)" in told
    texts = [evidence["text"] for evidence in incident(tmp_path / "watch")["evidence"]]
    assert not any("physical memory" in text for text in texts)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("{python} train.py 2>&1 | tee run.log", "ended with an uncaught ValueError"),
        ("{python} -c 'while True: print(1)' | head -n 1", ""),
        ("{python} -c 'import os; os.system(\"{python} train.py\")'", ""),
    ],
    ids=["a pipeline", "its reader had enough", "a Python that knows it"],
)
def test_an_exception_behind_exit_code_0_is_one_line(
    start: Start, tmp_path: Path, line: str, told: str
) -> None:
    _script(tmp_path, NAN)
    words = shlex.split(line.format(python=PYTHON)) if "os.system" in line else None
    guarded = start(words or ["bash", "-c", line.format(python=PYTHON)], "--out", "watch")
    assert guarded.wait() == 0
    assert summary(tmp_path / "watch")["incidents"] == []
    assert told in ours(guarded.err) and bool(ours(guarded.err)) is bool(told)


def test_the_last_line_before_an_abort_is_kept_though_nobody_flushed_it(
    start: Start, tmp_path: Path
) -> None:
    _script(tmp_path, "print('the last line')\nos.abort()\n")
    for name, options in (("pipe", ()), ("buffered", ("--buffered",))):
        assert start([PYTHON, "train.py"], "--out", name, *options).wait() == 134
        assert "the last line" in _said(tmp_path / name)
    with (tmp_path / "run.log").open("wb") as file:
        file.write(b"of an earlier command\n")
        file.flush()
        assert start([PYTHON, "train.py"], "--out", "file", stdout=file).wait() == 134
    assert _said(tmp_path / "file") == "the last line\n"


def test_a_kill_is_told_though_only_a_shell_saw_it(start: Start, tmp_path: Path) -> None:
    release = tuple(int(part) for part in os.uname().release.split(".")[:2])
    if release < (6, 15):
        pytest.skip("before Linux 6.15 only its parent learns how a process ended")
    _script(tmp_path, IS_WATCHED + "os.kill(os.getpid(), 9)\n")
    guarded = start(["bash", "-c", f"sleep 0.5; {PYTHON} train.py | cat"], "--out", "watch")
    assert guarded.wait() == 0
    found = incident(tmp_path / "watch")
    assert (found["class"], found["signal"], found["hidden"]) == ("killed", 9, True)
    assert found["age_s"] < summary(tmp_path / "watch")["wall_s"] - 0.4


HARNESS = """
import sys
with open("harness.log", "w") as log:
    log.write("torch.OutOfMemoryError: CUDA out of memory.\\nthe last line\\n")
    log.flush()
    print("ready", flush=True)
    sys.stdin.read()
"""
"""Takes what the guard prints. Its own log is about an earlier command that printed the same line."""


def test_what_a_program_around_the_guard_wrote_before_is_not_said_by_the_command(
    tmp_path: Path,
) -> None:
    _script(tmp_path, IS_WATCHED + "print('the last line')\nos.abort()\n")
    reader = subprocess.Popen(
        [PYTHON, "-c", HARNESS], cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with reader:
        assert reader.stdin is not None and reader.stdout is not None
        assert reader.stdout.readline() == b"ready\n"
        words = [PYTHON, "-m", "ttf", "guard", "--out", "watch", "--", PYTHON, "train.py"]
        guarded = subprocess.run(words, cwd=tmp_path, stdout=reader.stdin, check=False)
        reader.stdin.close()
    assert guarded.returncode == 134
    found = incident(tmp_path / "watch")
    assert found["class"] == "abort" and "the last line" in _said(tmp_path / "watch")
    assert "out of memory" not in str(found) + _said(tmp_path / "watch")
