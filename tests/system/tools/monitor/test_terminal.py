"""The live view on a real terminal: in place, within its size, and gone without a trace."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.conftest import wait_until
from tests.kit.terminal import INTERRUPT

_TAKE_TERMINAL = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
    "os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
)


class Terminal:
    """`ttf monitor PID` with a terminal of its own."""

    def __init__(self, pid: int, rows: int, columns: int, **env: str) -> None:
        self.master, self.slave = pty.openpty()
        termios.tcsetwinsize(self.slave, (rows, columns))
        self.before = termios.tcgetattr(self.slave)
        words = ["-m", "ttf", "monitor", str(pid), "--interval", "0.1"]
        self.process = subprocess.Popen(
            [sys.executable, "-c", _TAKE_TERMINAL, *words],
            stdin=self.slave,
            stdout=self.slave,
            stderr=self.slave,
            start_new_session=True,
            env={**os.environ, "TERM": "xterm-256color", "NO_COLOR": "", **env},
        )
        self.seen = bytearray()

    def read(self, seconds: float = 0.05) -> bytes:
        while select.select([self.master], [], [], seconds)[0]:
            self.seen += os.read(self.master, 1 << 16)
            seconds = 0.0
        return bytes(self.seen)

    def until(self, seen: Callable[[bytes], object]) -> None:
        wait_until(lambda: bool(seen(self.read())))

    def end(self) -> int:
        wait_until(lambda: self.read() is not None and self.process.poll() is not None)
        self.read()
        return self.process.wait()

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.slave)
        os.close(self.master)


@pytest.fixture
def terminal() -> Iterator[Callable[..., Terminal]]:
    opened: list[Terminal] = []

    def run(pid: int, rows: int, columns: int, **env: str) -> Terminal:
        opened.append(Terminal(pid, rows, columns, **env))
        return opened[-1]

    yield run
    for each in opened:
        each.close()


def frames(seen: bytes) -> list[str]:
    """The pages that were drawn, without colours."""
    text = re.sub(r"\x1b\[[\d;]*m", "", seen.decode())
    pages = re.split(r"\r(?:\x1b\[\d+A)?", text.replace("\r\n", "\n"))[1:]
    return [page.replace("\x1b[K", "").replace("\x1b[J", "").removesuffix("\n") for page in pages]


@pytest.mark.parametrize(("rows", "columns"), [(24, 80), (12, 40)])
def test_pages_stay_within_the_screen_and_the_interrupt_leaves_it_as_it_was(
    terminal: Callable[..., Terminal],
    waiting: subprocess.Popen[bytes],
    rows: int,
    columns: int,
) -> None:
    shown = terminal(waiting.pid, rows, columns)
    shown.until(lambda seen: len(frames(seen)) > 4)
    os.write(shown.master, INTERRUPT)
    assert shown.end() == 130
    assert termios.tcgetattr(shown.slave) == shown.before
    seen = bytes(shown.seen)
    assert not re.search(rb"\x1b\[\?|\x1b[78c=>]", seen), "no mode is switched, no cursor hidden"
    for frame in frames(seen)[:4]:
        lines = frame.split("\n")
        assert len(lines) <= rows - 1 and max(map(len, lines)) <= columns - 1, lines
        assert f"process {waiting.pid}" in lines[0]
        assert any(line.startswith("memory") for line in lines)
    assert b"error" not in seen and seen.replace(b"^C", b"").rstrip(b"\r").endswith(b"\n")


def test_without_colours_or_with_a_dumb_terminal_it_is_plain(
    terminal: Callable[..., Terminal], waiting: subprocess.Popen[bytes]
) -> None:
    plain = terminal(waiting.pid, 24, 80, NO_COLOR="1")
    plain.until(lambda seen: len(frames(seen)) > 2)
    assert not re.search(rb"\x1b\[[\d;]*m", bytes(plain.seen))
    dumb = terminal(waiting.pid, 24, 80, TERM="dumb")
    dumb.until(lambda seen: seen.count(b"\n") > 2)
    assert b"\x1b" not in bytes(dumb.seen)


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGKILL])
def test_a_killed_monitor_leaves_the_terminal_sane(
    terminal: Callable[..., Terminal], waiting: subprocess.Popen[bytes], signum: int
) -> None:
    shown = terminal(waiting.pid, 24, 80)
    shown.until(lambda seen: len(frames(seen)) > 2)
    os.kill(shown.process.pid, signum)
    assert shown.end() == -signum
    assert termios.tcgetattr(shown.slave) == shown.before
    assert b"\x1b[?" not in bytes(shown.seen)


class Tmux:
    """Draws what was sent, and can be resized."""

    def __init__(self, folder: Path, columns: int, rows: int) -> None:
        self._words = ["tmux", "-S", str(folder / "tmux"), "-f", "/dev/null"]
        self._size = ["-x", str(columns), "-y", str(rows)]

    def start(self, command: str) -> None:
        shell = ["sh", "-c", f"trap : INT; echo BEFORE; {command}; echo code $? PROMPT; cat"]
        env = {**os.environ, "TERM": "screen"}
        subprocess.run(
            [*self._words, "new-session", "-d", *self._size, *shell], env=env, check=True
        )

    def ask(self, *words: str) -> str:
        done = subprocess.run([*self._words, *words], capture_output=True, text=True, check=True)
        return done.stdout

    def screen(self) -> list[str]:
        return self.ask("capture-pane", "-p").splitlines()

    def shows(self, *words: str) -> bool:
        """There or in what has scrolled away above."""
        text = self.ask("capture-pane", "-p", "-S", "-")
        return all(word in text for word in words)

    def close(self) -> None:
        subprocess.run([*self._words, "kill-server"], capture_output=True, check=False)


@pytest.fixture
def tmux(tmp_path: Path) -> Iterator[Callable[[int, int], Tmux]]:
    if shutil.which("tmux") is None:
        pytest.skip("tmux draws the screen; it is not here")
    opened: list[Tmux] = []

    def run(columns: int, rows: int) -> Tmux:
        opened.append(Tmux(tmp_path, columns, rows))
        return opened[-1]

    yield run
    for each in opened:
        each.close()


def test_a_screen_that_is_resized_shows_one_whole_page(
    tmux: Callable[[int, int], Tmux], waiting: subprocess.Popen[bytes]
) -> None:
    screen = tmux(80, 24)
    screen.start(f"'{sys.executable}' -m ttf monitor {waiting.pid} --interval 0.2")
    title = f"process {waiting.pid}"
    wait_until(lambda: screen.shows(title, "memory", "python -c"))
    for columns, rows in ((50, 20), (40, 12), (100, 30)):
        screen.ask("resize-window", "-x", str(columns), "-y", str(rows))
        drawn = _clock(screen.screen(), title)
        # A page with a later time was drawn for this size; two resizes between two pages would leave
        # lines of the first, as tmux wraps them anew.
        wait_until(lambda: _clock(screen.screen(), title) not in (drawn, ""))  # noqa: B023
        wait_until(lambda: _is_one_page(screen.screen(), title))
    screen.ask("send-keys", "C-c")
    wait_until(lambda: screen.shows("code 130 PROMPT"))
    assert screen.ask("display-message", "-p", "#{cursor_flag}").strip() == "1"
    assert screen.shows("BEFORE", title), "the last page stays, and so does what was there"


def _page(lines: list[str], title: str) -> list[str]:
    """The page that was drawn last. A terminal that grows may bring back what had scrolled away
    above it while it was small: tmux does, and no program can know."""
    heads = [number for number, line in enumerate(lines) if line.startswith(title)]
    return lines[heads[-1] :] if heads else []


def _clock(lines: list[str], title: str) -> str:
    page = _page(lines, title)
    return page[0].split()[-1] if page else ""


def _is_one_page(lines: list[str], title: str) -> bool:
    page = _page(lines, title)
    return all(
        sum(line.startswith(begin) for line in page) == 1 for begin in ("process  ", "memory")
    )


def test_the_end_of_the_process_ends_the_view(
    tmux: Callable[[int, int], Tmux], waiting: subprocess.Popen[bytes]
) -> None:
    screen = tmux(80, 24)
    screen.start(f"'{sys.executable}' -m ttf monitor {waiting.pid} --interval 0.2")
    wait_until(lambda: screen.shows("memory"))
    with contextlib.suppress(ProcessLookupError):
        waiting.kill()
    wait_until(lambda: screen.shows("code 0 PROMPT", "ended", "Only its parent process knows"))
