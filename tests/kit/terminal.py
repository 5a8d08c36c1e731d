"""A terminal for a command: keys go in, what a person would see comes out."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.kit.gate import Gate
from tests.kit.live_run import LiveRun
from tests.kit.struck_run import World

SUSPEND: Final = b"\x1a"
INTERRUPT: Final = b"\x03"
_TAKE_TERMINAL: Final = "import fcntl, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0)"
HOLD, GO_ON = b"\x13", b"\x11"


class InTerminal(LiveRun):
    """A command whose controlling terminal is ours."""

    def _start(self, words: Sequence[str], env: Mapping[str, str]) -> None:
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
        python, option, prelude, *rest = words
        try:
            self.process = subprocess.Popen(
                [python, option, _TAKE_TERMINAL + prelude, *rest],
                env=self.place.environment({"TERM": "xterm-256color", "NO_COLOR": "", **env}),
                cwd=self.place.root,
                stdin=slave,
                stdout=slave,
                stderr=slave,
                start_new_session=True,
            )
        finally:
            os.close(slave)
        self._seen = bytearray()
        self._open = True
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        with contextlib.suppress(OSError):  # the other side closed it
            while self._open:
                if select.select([self.master], [], [], 0.05)[0]:
                    self._seen += os.read(self.master, 1 << 16)

    @property
    def seen(self) -> str:
        """Every byte so far."""
        return bytes(self._seen).decode(errors="replace")

    @property
    def err(self) -> str:
        return self.seen

    def press(self, key: bytes) -> None:
        os.write(self.master, key)

    def hang_up(self) -> None:
        """Whoever reads is not woken by a close: it looks at the end of the terminal instead."""
        if self._open:
            self._open = False
            self._reader.join(1)
            os.close(self.master)

    def close(self) -> None:
        super().close()
        self.hang_up()


class Tmux:
    """A terminal that draws: what a person sees in the end, not what was sent there."""

    def __init__(self, folder: Path, columns: int, rows: int) -> None:
        self._words = ["tmux", "-S", str(folder / "tmux"), "-f", "/dev/null"]
        self._size = ["-x", str(columns), "-y", str(rows)]

    def start(self, world: World, words: Sequence[str], gate: Gate) -> None:
        """The command, and after it a prompt that waits."""
        line = " ".join([sys.executable, "-m", "ttf", *(f"'{word}'" for word in words)])
        shell = ["sh", "-c", f"{line}; echo code $? PROMPT; cat"]
        env = world.environment({"TERM": "screen", "NO_COLOR": "", **gate.variable()})
        subprocess.run(
            [*self._words, "new-session", "-d", *self._size, *shell], env=env, check=True
        )

    def screen(self) -> list[str]:
        return self._ask("capture-pane", "-p", "-S", "-").splitlines()

    def cursor_is_shown(self) -> bool:
        return self._ask("display-message", "-p", "#{cursor_flag}").strip() == "1"

    def _ask(self, *words: str) -> str:
        done = subprocess.run([*self._words, *words], capture_output=True, text=True, check=True)
        return done.stdout

    def close(self) -> None:
        subprocess.run([*self._words, "kill-server"], capture_output=True, check=False)
