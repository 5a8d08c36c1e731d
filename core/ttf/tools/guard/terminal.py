"""The guard's terminal: lent to the command, taken back, never read."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import struct
import termios
from typing import Final

_STDIN, _STDOUT, _STDERR = 0, 1, 2
_SIZE: Final = struct.Struct("HHHH")
_OUTPUT, _LOCAL = 1, 3  # indices in the result of tcgetattr


class Terminal:
    """Job control as a shell does it, one level deeper.

    If standard input and output both are our controlling terminal, the command's process group
    becomes its foreground: Ctrl-C, Ctrl-Z and the window size go only to the command. In a pipeline
    (`... | less`) other processes need the terminal: it stays with our group, and is lent only to a
    command that was stopped because it needed the terminal.
    """

    def __init__(self) -> None:
        # the controlling terminal; None if standard input is something else
        self.fd = _STDIN if _foreground(_STDIN) is not None else None
        self._alone = self.fd is not None and _foreground(_STDOUT) is not None

    @property
    def with_us(self) -> bool:
        """Our group is in the foreground and gets the keyboard's signals."""
        return self.fd is not None and _foreground(self.fd) == os.getpgrp()

    @property
    def to_lend(self) -> bool:
        """Whether a command gets it at its start."""
        return self._alone and self.with_us

    def lent_to(self, group: int) -> bool:
        return self.fd is not None and _foreground(self.fd) == group

    @property
    def hung_up(self) -> bool:
        """It was closed: the kernel has signalled its foreground group."""
        return self.fd is not None and _foreground(self.fd) is None

    def lend(self, group: int) -> None:
        """Does nothing if our group does not have it."""
        if self.with_us:
            self._give(group)

    def take_back(self, group: int) -> None:
        """Does nothing if another group has it."""
        if self.lent_to(group):
            self._give(os.getpgrp())

    def _give(self, group: int) -> None:
        assert self.fd is not None
        with contextlib.suppress(OSError):  # the group ended meanwhile
            os.tcsetpgrp(self.fd, group)


def take_for_oneself(fd: int) -> None:
    """Called in the child before exec; SIGTTOU must be ignored."""
    with contextlib.suppress(OSError):
        os.tcsetpgrp(fd, os.getpid())


def _foreground(fd: int) -> int | None:
    """The foreground group; None if this is not our controlling terminal."""
    try:
        return os.tcgetpgrp(fd)
    except OSError:
        return None


# --- the way of standard error -------------------------------------------------------------------


def stderr_way() -> tuple[int, int]:
    """(ours, the command's): a pseudo terminal if our standard error is a terminal, else a pipe."""
    if not os.isatty(_STDERR):
        return os.pipe()
    ours, theirs = os.openpty()
    with contextlib.suppress(termios.error):
        attributes = termios.tcgetattr(_STDERR)
        attributes[_OUTPUT] &= ~termios.OPOST  # the real one does that, once
        attributes[_LOCAL] &= ~(termios.ECHO | termios.ICANON | termios.ISIG)
        termios.tcsetattr(theirs, termios.TCSANOW, attributes)
    copy_size(ours)
    return ours, theirs


def copy_size(pty: int) -> bool:
    """Copies the size of our terminal to `pty`. Returns whether it changed."""
    if not os.isatty(pty):
        return False
    try:
        wanted, has = (fcntl.ioctl(fd, termios.TIOCGWINSZ, bytes(_SIZE.size)) for fd in (2, pty))
        if wanted != has:
            fcntl.ioctl(pty, termios.TIOCSWINSZ, wanted)
    except OSError:
        return False
    return wanted != has


def stop_ourselves() -> None:
    """Stops our process group (not the command's), as Ctrl-Z would. Returns after SIGCONT."""
    before = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
    try:
        os.killpg(os.getpgrp(), signal.SIGTSTP)
    finally:
        signal.signal(signal.SIGTSTP, before)
