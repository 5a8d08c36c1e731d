"""The terminal the guard was started in: lent to the command, taken back, never read."""

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
_OUTPUT, _LOCAL = 1, 3
"""Places in what tcgetattr returns."""


class Terminal:
    """Job control as a shell does it, one level further down.

    Where standard input and output both are our controlling terminal, the command's process group
    becomes its foreground: Ctrl-C, Ctrl-Z and the window's size go to the command and to nobody
    else. In a pipeline (`... | less`) others need the terminal: there it stays with our own group,
    and is lent only to a command that was stopped because it wanted it.
    """

    def __init__(self) -> None:
        self.fd = _STDIN if _foreground(_STDIN) is not None else None
        """The controlling terminal; None where standard input is something else."""
        self._alone = self.fd is not None and _foreground(_STDOUT) is not None

    @property
    def with_us(self) -> bool:
        """We are in the foreground, and so the keyboard's signals come to us."""
        return self.fd is not None and _foreground(self.fd) == os.getpgrp()

    @property
    def to_lend(self) -> bool:
        """Whether a command gets it at its start."""
        return self._alone and self.with_us

    def lent_to(self, group: int) -> bool:
        return self.fd is not None and _foreground(self.fd) == group

    @property
    def hung_up(self) -> bool:
        """It was closed: everybody in its foreground was told so by the kernel."""
        return self.fd is not None and _foreground(self.fd) is None

    def lend(self, group: int) -> None:
        """Does nothing where we do not have it."""
        if self.with_us:
            self._give(group)

    def take_back(self, group: int) -> None:
        """Does nothing where somebody else has it by now."""
        if self.lent_to(group):
            self._give(os.getpgrp())

    def _give(self, group: int) -> None:
        assert self.fd is not None
        with contextlib.suppress(OSError):  # the group ended meanwhile
            os.tcsetpgrp(self.fd, group)


def take_for_oneself(fd: int) -> None:
    """In a child, before it becomes the command; SIGTTOU must be ignored."""
    with contextlib.suppress(OSError):
        os.tcsetpgrp(fd, os.getpid())


def _foreground(fd: int) -> int | None:
    """The group in the foreground; None where that is not our controlling terminal."""
    try:
        return os.tcgetpgrp(fd)
    except OSError:
        return None


# --- the way of standard error -------------------------------------------------------------------


def stderr_way() -> tuple[int, int]:
    """(ours, the command's): a pseudo terminal where our standard error is a terminal, so that the
    command finds one there too; else a pipe."""
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
    """Gives the pseudo terminal the size of ours; whether it had another one."""
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
    """And the rest of our process group, as Ctrl-Z would have; the command's group is another one.
    Returns when somebody continues us."""
    before = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
    try:
        os.killpg(os.getpgrp(), signal.SIGTSTP)
    finally:
        signal.signal(signal.SIGTSTP, before)
