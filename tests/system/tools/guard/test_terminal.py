"""In a terminal: keys, sizes and job control are the command's, as without a guard."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import termios
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from tests.conftest import wait_until
from tests.kit.guarded_command import PYTHON, alive
from tests.kit.widely import wide

CTRL_C, CTRL_Z = b"\x03", b"\x1a"
GUARD = f"{PYTHON} -m ttf guard --"
TAKE_TERMINAL = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
    "os.execvp(sys.argv[1], sys.argv[1:])"
)


class Shell:
    """An interactive bash in a terminal of its own."""

    def __init__(self, folder: Path) -> None:
        self.master, slave = pty.openpty()
        self.resize(30, 100)
        self.process = subprocess.Popen(
            [PYTHON, "-c", TAKE_TERMINAL, "bash", "--norc", "--noprofile", "-i"],
            cwd=folder,
            env=os.environ | {"PS1": "PROMPT> ", "TMPDIR": str(folder), "TERM": "dumb"},
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
        )
        os.close(slave)
        self._seen = bytearray()
        self._open = True
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.until("PROMPT> ")

    def _read(self) -> None:
        with contextlib.suppress(OSError):
            while self._open:
                if select.select([self.master], [], [], 0.05)[0]:
                    self._seen += os.read(self.master, 1 << 16)

    @property
    def seen(self) -> str:
        return self._seen.decode(errors="replace")

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def press(self, keys: bytes) -> None:
        os.write(self.master, keys)

    def types(self, line: str) -> None:
        self._seen.clear()
        self.press(line.encode() + b"\n")

    def until(self, pattern: str, timeout_s: float = 60) -> re.Match[str]:
        ends_at = time.monotonic() + timeout_s
        while (found := re.search(pattern, self.seen)) is None:
            assert time.monotonic() < ends_at, f"no {pattern!r} in {self.seen!r}"
            time.sleep(0.01)
        return found

    def close(self) -> None:
        for child in psutil.Process(self.process.pid).children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                child.kill()
        self.process.kill()
        self.process.wait()
        self._open = False
        self._reader.join(1)
        os.close(self.master)


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    if shutil.which("bash") is None:
        pytest.skip("there is no bash here")
    made = Shell(tmp_path)
    yield made
    made.close()


def test_the_command_finds_a_terminal_of_the_same_size(shell: Shell, tmp_path: Path) -> None:
    code = "import os; print(*map(os.isatty, range(3)), *os.get_terminal_size(2), 'END')"
    (tmp_path / "t.py").write_text(code)
    shell.types(f"{GUARD} {PYTHON} t.py")
    shell.until("True True True 100 30 END")


@wide
def test_what_it_writes_looks_the_same(shell: Shell, tmp_path: Path) -> None:
    code = r"import sys; sys.stderr.write('a\tb\n\x1b[31mred\x1b[0m\rback\n'); print('END')"
    (tmp_path / "t.py").write_text(code)
    for words in (f"{PYTHON} t.py", f"{GUARD} {PYTHON} t.py"):
        shell.types(words)
        shell.until("END")
        shell.until("red")
        assert "a\tb\r\n\x1b[31mred\x1b[0m\rback\r\n" in shell.seen


def test_a_new_size_of_the_window_reaches_it(shell: Shell, tmp_path: Path) -> None:
    code = """
import os, signal
def told(*_):
    size = os.get_terminal_size(2)
    if size.columns == 77:
        print("NOW", *size)
        os._exit(5)
signal.signal(signal.SIGWINCH, told)
print("READY")
while True: signal.pause()
"""
    (tmp_path / "t.py").write_text(code)
    shell.types(f"{GUARD} {PYTHON} t.py")
    shell.until("READY")
    shell.resize(20, 77)
    shell.until("NOW 77 20")


def test_ctrl_c_reaches_the_command_alone_and_once(shell: Shell, tmp_path: Path) -> None:
    code = """
import os, signal, sys, time
count = 0
def told(*_):
    global count
    count += 1
    print("TOLD", flush=True)
signal.signal(signal.SIGINT, told)
print("READY", flush=True)
while not os.path.exists("go"): time.sleep(0.05)
print("COUNT", count)
"""
    (tmp_path / "t.py").write_text(code)
    shell.types(f"{GUARD} {PYTHON} t.py; echo CODE $?")
    shell.until("READY")
    shell.press(CTRL_C)
    shell.until("TOLD")
    time.sleep(0.3)  # for a second one, which would be wrong
    (tmp_path / "go").touch()
    shell.until("COUNT 1")
    shell.until("CODE 0")


@wide
def test_a_command_that_ctrl_c_ends_ends_loops_as_without_a_guard(shell: Shell) -> None:
    shell.types(f"for i in 1 2 3; do {GUARD} sh -c 'echo UP; sleep 60'; done; echo CODE $?")
    shell.until("UP\r\n")
    time.sleep(0.3)
    shell.press(CTRL_C)
    shell.until("PROMPT> ")
    shell.types("echo AFTER $?")
    shell.until("AFTER 130")
    assert shell.seen.count("UP") == 0 and "ttf guard" not in shell.seen


def test_ctrl_z_stops_both_and_fg_goes_on(shell: Shell, tmp_path: Path) -> None:
    code = "import time\nprint('READY', flush=True)\nname = input()\nprint('GOT', name, flush=True)"
    (tmp_path / "t.py").write_text(code)
    shell.types(f"{GUARD} {PYTHON} t.py; echo CODE $?")
    shell.until("READY")
    shell.press(CTRL_Z)
    shell.until(r"Stopped.*PROMPT> ".replace(".*", r"[\s\S]*"))
    shell.types("echo STILL HERE")
    shell.until("\nSTILL HERE")
    shell.types("fg")
    shell.until("ttf guard")
    shell.press(b"ada\n")
    shell.until("GOT ada")


@wide
@pytest.mark.parametrize("more", ["", "| cat"])
def test_a_command_that_answers_ctrl_z_with_a_stop_of_its_own(
    shell: Shell, tmp_path: Path, more: str
) -> None:
    code = """
import os, signal, time
signal.signal(signal.SIGTSTP, lambda *_: os.kill(os.getpid(), signal.SIGSTOP))
print("READY", flush=True)
end = time.time() + 60
while time.time() < end and not os.path.exists("go"): time.sleep(0.05)
print("GOES ON", flush=True)
"""
    (tmp_path / "t.py").write_text(code)
    shell.types(f"{GUARD} {PYTHON} t.py {more}")
    shell.until("READY")
    shell.press(CTRL_Z)
    shell.until(r"Stopped[\s\S]*PROMPT> ")
    (tmp_path / "go").touch()
    shell.types("fg")
    shell.until("GOES ON")


@wide
def test_in_the_background_it_runs_and_fg_gives_it_the_terminal(
    shell: Shell, tmp_path: Path
) -> None:
    (tmp_path / "t.py").write_text("print('GOT', input(), flush=True)")
    shell.types(f"{GUARD} {PYTHON} t.py &")
    shell.until("PROMPT> ")
    wait_until(lambda: "Stopped" in _jobs(shell))
    shell.types("fg")
    shell.until("t.py")
    time.sleep(0.3)
    shell.press(b"eva\n")
    shell.until("GOT eva")


def _jobs(shell: Shell) -> str:
    shell.types("jobs; echo LISTED")
    shell.until("\nLISTED")
    return shell.seen


@wide
def test_in_a_pipeline_the_others_keep_the_terminal(shell: Shell, tmp_path: Path) -> None:
    code = "import sys\nwith open('/dev/tty') as tty: print('READER GOT', tty.readline())\nsys.stdin.read()"
    (tmp_path / "pager.py").write_text(code)
    shell.types(f"{GUARD} sh -c 'echo one; sleep 2; echo two' | {PYTHON} pager.py")
    time.sleep(1)
    shell.press(b"key\n")
    shell.until("READER GOT key")
    shell.until("PROMPT> ")


@wide
def test_ctrl_c_in_a_pipeline_ends_the_command_and_its_children(
    shell: Shell, tmp_path: Path
) -> None:
    shell.types(f"{GUARD} sh -c 'sleep 60 & echo $! > pid; wait' | cat")
    path = tmp_path / "pid"
    wait_until(lambda: path.exists() and path.read_text().strip() != "")
    time.sleep(0.3)
    shell.press(CTRL_C)
    shell.until("PROMPT> ")
    shell.types("echo NEXT")
    shell.until("\nNEXT")


@wide
def test_a_terminal_that_closes_ends_the_command(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    try:
        shell.types(
            f"{GUARD} {PYTHON} -c \"import time; print('RE' + 'ADY', flush=True); time.sleep(60)\""
        )
        shell.until("READY")
        found = psutil.Process(shell.process.pid).children(recursive=True)
    finally:
        shell._open = False
        shell._reader.join(1)
        os.close(shell.master)
    try:
        wait_until(lambda: not any(alive(p.pid) for p in found))
    finally:
        for process in found:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        with contextlib.suppress(ProcessLookupError):
            os.kill(shell.process.pid, signal.SIGKILL)
        shell.process.wait()
