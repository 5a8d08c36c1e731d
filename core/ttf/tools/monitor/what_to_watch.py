"""Finds the target: a run's folder, or any process."""

from __future__ import annotations

import errno
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ttf.errors import ConfigError, DataMissing
from ttf.rundir.documents import DECISION
from ttf.rundir.run_folder import noted_pid
from ttf.text.shell import quoted
from ttf.tools.monitor import system

_OF_A_RUN: Final = ("run.toml", ".owner")
_OF_A_GUARD: Final = ("environment.json", "memory.jsonl")
_LOCKS: Final = (".lock", ".writer")
_CLOCK_S: Final = 2.0  # File clocks and process clocks differ by less.
_LOOKS: Final = 10
_PAUSE_S: Final = 0.01
_MOST_PID: Final = 1 << 31


@dataclass(frozen=True, kw_only=True)
class Target:
    folder: Path | None
    pid: int | None  # None: every process that works on the folder, now and later


def find(text: str) -> Target:
    """From the user's text. Raises ConfigError, DataMissing."""
    if text.isdecimal():
        return _of_process(int(text))
    folder = Path(text)
    if (folder / DECISION).is_file():
        from ttf.tools.decision.record import Decision

        decision = Decision.read(folder)
        folder = decision.run_of(decision.shown)
    return _of_folder(folder)


def _of_process(pid: int) -> Target:
    if not 0 < pid < _MOST_PID or system.started(pid) is None:
        raise _no_process(pid)
    folder = next(filter(None, map(_folder_of, system.open_files(pid))), None)
    return Target(folder=folder, pid=pid)


def _no_process(pid: int) -> ConfigError:
    hint = (
        "To list the processes: ps -ef. To watch a run, you can give its folder: ttf monitor "
        "runs/run-001."
    )
    if 0 < pid < _MOST_PID:
        try:
            os.kill(pid, 0)
        except PermissionError:
            return ConfigError(
                f"Process {pid} exists, but this system does not show you the processes of other "
                "users.",
                hint=(
                    "Run the command as the user who started the process, or as root: sudo "
                    f"ttf monitor {pid}."
                ),
            )
        except ProcessLookupError:
            pass
        else:
            return ConfigError(
                f"Process {pid} has ended. Only its exit code is left, and only its parent "
                "process can read it.",
                hint="To find out why a command ends: ttf guard -- COMMAND.",
            )
    return ConfigError(f"There is no process {pid}.", hint=hint)


def _folder_of(path: str) -> Path | None:
    """The run whose lock this open file is."""
    file = Path(path)
    if file.name not in _LOCKS or not (file.parent / "run.toml").is_file():
        return None
    return file.parent


def _of_folder(path: Path) -> Target:
    target = quoted(path)
    try:
        names = {entry.name for entry in path.iterdir()}
    except FileNotFoundError:
        raise DataMissing(
            f"There is no folder {path}.{_runs_beside(path)}",
            hint="Give the folder that ttf train printed, or the number of a process.",
        ) from None
    except NotADirectoryError:
        raise DataMissing(
            f"{path} is a file, but a run is a folder.",
            hint=f"Try: ttf monitor {quoted(path.parent)}",
        ) from None
    except OSError as error:
        reason = os.strerror(error.errno or errno.EIO)
        raise DataMissing(
            f"{path} cannot be read: {reason}.", hint=f"Check its permissions: ls -ld {target}"
        ) from error
    if names.isdisjoint(_OF_A_RUN) and not names.isdisjoint(_OF_A_GUARD):
        raise DataMissing(
            f"{path} is a folder of ttf guard. It does not contain the number of the process that "
            "ttf guard watches.",
            hint=f"To watch the command, give its process number: ttf monitor PID. To read its incidents: ttf explain {target}",
        )
    if names.isdisjoint(_OF_A_RUN):
        raise DataMissing(
            f"{path} is not a run folder: it has no run.toml.{_runs_in(path)}",
            hint=(
                "Give the folder that ttf train printed, for example runs/run-001, or the "
                "number of a process."
            ),
        )
    return Target(folder=path, pid=None)


def _runs_beside(path: Path) -> str:
    from ttf.errors import suggestion

    try:
        names = [p.name for p in path.parent.iterdir() if (p / "run.toml").is_file()]
    except OSError:
        return ""
    return suggestion(path.name, names)


def _runs_in(path: Path) -> str:
    runs = sorted(p.parent for p in path.glob("*/run.toml"))
    return f" {runs[-1]} is a run folder." if runs else ""


def owner_of(folder: Path) -> int | None:
    """The process that holds the run's lock, or None.

    An old note may name a number that a newer process has: then it is ignored.
    """
    note = folder / ".owner"
    try:
        pid, written = _written(note), note.stat().st_mtime
    except OSError:
        return None
    started = None if pid is None else system.started(pid)
    return pid if started is not None and started <= written + _CLOCK_S else None


def _written(note: Path) -> int | None:
    # An empty note is being written.
    for _ in range(_LOOKS):
        pid = noted_pid(note)
        if pid is not None or not note.exists():
            return pid
        time.sleep(_PAUSE_S)
    return None
