"""The command itself: started in its own process group, waited for, signalled.

Not a `ttf.process.child.Child`: a foreign command must find terminal, standard input and output,
descriptors and environment as if there were no guard.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from ttf.process.child import NO_SESSION, kill_tree
from ttf.process.lifeline import ORPHANED, parent_death_signal
from ttf.process.limits import no_other_process
from ttf.tools.guard.terminal import Terminal, stderr_way, take_for_oneself

# Every process of one start has this variable, even after it was re-parented.
TREE: Final = "TTF_GUARD_TREE"
NOT_FOUND: Final = 127
NOT_EXECUTABLE: Final = 126  # exit codes of shells


class NotStarted(Exception):
    """The command cannot be run; `code` as of a shell."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


class Change(NamedTuple):
    ended: int | None = None  # return code as of Popen: negative after a signal
    stopped: int | None = None  # the signal that stopped it
    continued: bool = False


class Command:
    """One start. The guard's own signal handlers must be in place, SIGTTOU must be ignored."""

    def __init__(
        self, words: Sequence[str], environment: Mapping[str, str], tree: str, terminal: Terminal
    ) -> None:
        """Raises NotStarted."""
        self.words, self.tree = words, tree
        self.comm = ""  # the kernel's name of it, at the last look
        self.stderr, theirs = stderr_way()
        way = os.fstat(theirs)
        self.relayed = (way.st_dev, way.st_ino)
        try:
            self._process = subprocess.Popen(
                words,
                stderr=theirs,
                env={**environment, TREE: tree},
                close_fds=False,  # descriptors opened for the command are its own
                process_group=0,
                preexec_fn=_before(os.getpid(), terminal),  # noqa: PLW1509 - we have one thread
            )
        except OSError as error:
            os.close(self.stderr)
            raise _not_started(error, words[0]) from error
        finally:
            os.close(theirs)

    @property
    def pid(self) -> int:
        """The number of its process and of its group."""
        return self._process.pid

    def has_ended(self) -> bool:
        """Whether it is a zombie that `changes` will take."""
        how = os.WEXITED | os.WNOHANG | os.WNOWAIT
        return os.waitid(os.P_PID, self.pid, how) is not None

    def changes(self) -> Change | None:
        """The next unreported change of state; never waits."""
        self.comm = _comm(self.pid) or self.comm  # a zombie has one still
        flags = os.WNOHANG | os.WUNTRACED | os.WCONTINUED
        pid, status = os.waitpid(self.pid, flags)
        if pid == 0:
            return None
        if os.WIFSTOPPED(status):
            return Change(stopped=os.WSTOPSIG(status))
        if os.WIFCONTINUED(status):
            return Change(continued=True)
        self._process.returncode = os.waitstatus_to_exitcode(status)
        return Change(ended=self._process.returncode)

    def signal(self, signum: int) -> bool:
        """To the process alone, as `kill PID` would; False if not allowed."""
        return self._send(os.kill, signum)

    def signal_group(self, signum: int) -> bool:
        """To the whole group, as a terminal would."""
        return self._send(os.killpg, signum)

    def _send(self, send: Callable[[int, int], None], signum: int) -> bool:
        try:
            send(self.pid, signum)
        except ProcessLookupError:
            return True
        except PermissionError:  # it became another user, as sudo does
            return False
        return True

    def kill_tree(self) -> None:
        """Kills all processes of this start, even re-parented ones."""
        if self._process.returncode is None:
            self.signal_group(signal.SIGKILL)
        kill_tree(NO_SESSION, self.tree, TREE)


def _before(guard: int, terminal: Terminal) -> Callable[[], None]:
    """What the child does before exec. Nothing here may raise."""
    ask_to_end = parent_death_signal(signal.SIGTERM)
    lend = terminal.fd if terminal.to_lend else None

    def prepare() -> None:
        ask_to_end()
        if os.getppid() != guard:  # gone before the kernel was asked
            os._exit(ORPHANED)
        if lend is not None:
            take_for_oneself(lend)
        signal.signal(signal.SIGTTOU, signal.SIG_DFL)

    return prepare


def _not_started(error: OSError, name: str) -> NotStarted:
    if isinstance(error, FileNotFoundError):
        why = "there is no such command on PATH"
        if "/" in name:
            why = "there is no such file, or the interpreter of its first line does not exist"
        return NotStarted(NOT_FOUND, f"{name}: {why}.")
    if isinstance(error, PermissionError) and (not name or Path(name).is_dir()):
        what = f"{name}: this is a folder" if name else "The name of the command is empty"
        return NotStarted(NOT_EXECUTABLE, f"{what}. Give a command after --.")
    if isinstance(error, PermissionError):
        return NotStarted(
            NOT_EXECUTABLE,
            f"{name}: this file is not executable. To make it executable: chmod +x {name}",
        )
    too_low = no_other_process(error)
    if too_low is not None:
        return NotStarted(NOT_EXECUTABLE, f"{name}: {too_low} {too_low.hint}")
    return NotStarted(
        NOT_EXECUTABLE,
        f"{name}: the system cannot run it ({error.strerror}). The first line of a script must "
        "name its interpreter, for example #!/bin/sh.",
    )


def _comm(pid: int) -> str:
    with contextlib.suppress(OSError), open(f"/proc/{pid}/comm", "rb") as file:  # noqa: PTH123
        return file.read().decode(errors="replace").strip()
    return ""
