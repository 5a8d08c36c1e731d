"""With --core, a death in native code has its function and library, and nothing is left behind."""

from __future__ import annotations

import resource
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.kit.fixtures.guard import Start
from tests.kit.guarded_command import PYTHON, incident, ours

from ttf.incidents.core_file import CoreFiles

pytestmark = [pytest.mark.skipif(sys.platform != "linux", reason="core files of Linux")]
SOURCE = """
#include <pthread.h>
#include <stdlib.h>
void write_nowhere(int *at) { *at = 1; }
void segfault(void) { write_nowhere((int *)8); }
static void *gives_up(void *nothing) { abort(); return nothing; }
void abort_in_thread(void) {
    pthread_t thread;
    pthread_create(&thread, 0, gives_up, 0);
    pthread_join(thread, 0);
}
int deeper(volatile int *depth) { volatile char room[4096]; room[0] = 1; *depth += room[0];
    return deeper(depth) + room[0]; }
void stack_overflow(void) { volatile int depth = 0; deeper(&depth); }
"""
SCRIPT = "import ctypes, sys\ngetattr(ctypes.CDLL('./libplanted.so'), sys.argv[1])()\n"
IN_BELOW = "import ctypes; ctypes.CDLL('../libplanted.so').segfault()"


def _without_cores() -> str:
    if shutil.which("gdb") is None or shutil.which("gcc") is None:
        return "needs gdb and gcc"
    if sys.platform == "linux" and CoreFiles().program:
        return "core files go to a program"
    if resource.getrlimit(resource.RLIMIT_CORE)[1] == 0:
        return "core files are forbidden (ulimit -Hc)"
    return ""


cores = pytest.mark.skipif(bool(_without_cores()), reason=_without_cores() or "cores can be had")


@pytest.fixture
def planted(tmp_path: Path) -> Path:
    """A folder with a native library that dies in three ways, and a script that calls it."""
    (tmp_path / "planted.c").write_text(SOURCE)
    (tmp_path / "train.py").write_text(SCRIPT)
    words = [
        "gcc",
        "-O0",
        "-w",
        "-shared",
        "-fPIC",
        "-o",
        "libplanted.so",
        "planted.c",
        "-lpthread",
    ]
    subprocess.run(words, cwd=tmp_path, check=True)
    return tmp_path


def _frames(found: Any) -> list[tuple[str, str]]:
    return [(frame["function"], frame["library"]) for frame in found["native_frames"]]


@cores
@pytest.mark.parametrize(
    ("how", "functions", "name"),
    [
        ("segfault", ["write_nowhere", "segfault"], "segfault"),
        ("abort_in_thread", ["gives_up"], "abort"),
        ("stack_overflow", ["deeper", "deeper"], "segfault"),
    ],
)
def test_the_function_that_died_is_named(
    start: Start, planted: Path, how: str, functions: list[str], name: str
) -> None:
    before = sorted(path.name for path in planted.iterdir())
    guarded = start([PYTHON, "train.py", how], "--out", "watch", "--core")
    guarded.wait()
    found = incident(planted / "watch")
    assert found["class"] == name
    assert _frames(found)[: len(functions)] == [(f, "libplanted.so") for f in functions]
    assert f"{functions[0]} (libplanted.so)" in found["explanation"]
    assert f"native code was at {functions[0]} (libplanted.so)" in ours(guarded.err)
    every = (planted / "watch/incidents/001/native.txt").read_text()
    assert functions[-1] in every
    assert every.count("\nThread ") + every.startswith("Thread ") == (
        2 if how == "abort_in_thread" else 1
    )
    assert sorted(path.name for path in planted.iterdir()) == [*before, "watch"]


def test_a_core_of_a_script_below_a_shell_is_found_in_the_folder_that_it_works_in(
    start: Start, planted: Path
) -> None:
    if why := _without_cores():
        pytest.skip(why)
    (planted / "below").mkdir()
    line = f'cd below && {PYTHON} -c "{IN_BELOW}" | cat'
    assert start(["bash", "-c", line], "--out", "watch", "--core").wait() == 0
    found = incident(planted / "watch")
    assert found["hidden"]
    assert _frames(found)[0] == ("write_nowhere", "libplanted.so")
    assert list((planted / "below").iterdir()) == []


def test_without_gdb_the_message_has_the_command_that_would_show_it(
    start: Start, tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text("import os\nos.abort()\n")
    guarded = start([PYTHON, "train.py"], "--out", "watch", "--core", env={"PATH": str(tmp_path)})
    assert guarded.wait() == 134
    found = incident(tmp_path / "watch")
    assert found["native_frames"] == []
    assert "gdb is not installed (apt-get install gdb)" in ours(guarded.err)
    told = [piece["text"] for piece in found["evidence"] if piece["source"] == "native stack"]
    assert told[0].endswith(
        f"gdb -nx -batch -ex run -ex 'thread apply all bt' --args {PYTHON} train.py"
    )
    assert not (tmp_path / "core").exists()


@pytest.mark.parametrize(
    ("forbids", "why"),
    [("ulimit -Hc 0", "ulimit -Hc is 0"), ("mkdir core", "the kernel would write over")],
)
def test_where_no_core_can_be_written_the_message_says_why(
    tmp_path: Path, forbids: str, why: str
) -> None:
    if _without_cores():
        pytest.skip(_without_cores())
    guard = f"{PYTHON} -m ttf guard --core --out watch -- {PYTHON} -c 'import os; os.abort()'"
    done = subprocess.run(
        ["bash", "-c", f"{forbids}; {guard}"], cwd=tmp_path, capture_output=True, check=False
    )
    assert done.returncode == 134
    assert why in ours(done.stderr) and "--args" in ours(done.stderr)
    assert incident(tmp_path / "watch")["native_frames"] == []


@pytest.mark.parametrize("name", ["core", "core.mine"])
def test_a_file_of_the_user_is_never_taken_for_a_core(tmp_path: Path, name: str) -> None:
    (tmp_path / "core_pattern").write_text("core.%e\n" if "." in name else "core\n")
    (tmp_path / "core_uses_pid").write_text("0\n")
    mine = tmp_path / name
    files = CoreFiles(tmp_path, folder=tmp_path)
    mine.write_bytes(b"\x7fELF\x02\x01, not quite")
    assert files.of(1, 11) is None
    files.remove()
    assert mine.exists()
    assert CoreFiles(tmp_path, folder=tmp_path).in_the_way == str(mine)
