"""Every intended error of `ttf`: one class per situation, each with its exit code.

A message says what happened, why probably, and what to do (`hint`). An exception that is not a
`TtfError` is a bug in ttf and ends with exit code 70.
"""

from __future__ import annotations

import difflib
import signal
from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Any, TypeAlias


class ExitCode(IntEnum):
    """The exit codes of `ttf` commands; CONTRACT: fixed names and numbers."""

    DONE = 0
    USAGE = 2
    BAD_DATA = 3
    NUMERIC = 4
    GAVE_UP = 5
    UNSAFE = 6
    GATE = 7
    STORAGE = 8
    IN_USE = 9
    NO_CHECKPOINT = 10
    OUR_FAULT = 70
    INTERRUPTED = 130
    TERMINATED = 143


class TtfError(Exception):
    """A failure with a message for the user; `str()` is the message without the hint."""

    exit_code: ExitCode = ExitCode.OUR_FAULT
    # Those that reached the supervisor of a run which ended with this error, up to its very end.
    signals: Sequence[int] = ()

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint
        self.details: dict[str, Any] = {}
        """More fields of the error's document with --json: `run_dir`, `summary`."""


class ConfigError(TtfError):
    """Wrong usage or configuration; `problems` lists all of them, not only the first."""

    exit_code = ExitCode.USAGE

    def __init__(self, message: str, *, problems: Sequence[str] = (), hint: str = "") -> None:
        text = message if not problems else "\n".join([message, *(f"  - {p}" for p in problems)])
        super().__init__(text, hint=hint)
        self.problems = tuple(problems)


class UnknownName(ConfigError):
    """An unregistered name; offers the closest match."""

    def __init__(self, what: str, name: str, known: Iterable[str]) -> None:
        self.name = name
        self.known = tuple(sorted(known))
        super().__init__(f"No {what} named {name!r}.{suggestion(name, self.known)}")


class PluginUnavailable(ConfigError):
    """The plugin is installed but cannot run here: a library is missing, or there is no device."""


class PluginBroken(ConfigError):
    """The plugin raised while it was loaded; names the distribution it came from."""


class BadData(TtfError):
    """A file, an array or a row that cannot be trained on."""

    exit_code = ExitCode.BAD_DATA


class DataMissing(BadData):
    """The file is not there."""


class ArrayMissing(BadData):
    """The container is there, the array is not."""


class DataCompressed(BadData):
    """A deflated member: it cannot be mapped, only converted."""


class DataChanged(BadData):
    """A file was replaced, cut or rewritten while it was in use."""


class ArtifactDamaged(BadData):
    """A file that ttf wrote itself is missing or no longer matches its hash."""


class EntryRefused(ArtifactDamaged):
    """An entry of a folder is a link, a pipe or a device, or leads out of the folder."""


class MadeByNewerVersion(BadData):
    """A folder of a later version of ttf, whose files this one could read wrongly."""


class NumericFailure(TtfError):
    """A loss or gradient is not finite, or a device computed wrong numbers."""

    exit_code = ExitCode.NUMERIC


class DeviceMistrusted(NumericFailure):
    """A device's numbers differ from the CPU's; `remedy` says how to go on without it."""

    def __init__(self, message: str, *, remedy: Mapping[str, Any], hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.remedy = dict(remedy)
        self.details["remedy"] = self.remedy


class GaveUp(TtfError):
    """Something died more often than restarts are allowed."""

    exit_code = ExitCode.GAVE_UP


class TrainerFault(TtfError):
    """The training process raised an unexpected exception: a bug of ttf or of a plugin."""


class MinerFailed(GaveUp):
    """A miner died, hung or answered wrongly; a fresh process, then another miner, may take
    over."""

    def __init__(self, miner: str, message: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.miner = miner


class MinerDied(MinerFailed):
    """The worker process ended without an answer."""


class MinerTimedOut(MinerFailed):
    """A mining round took longer than its deadline."""


class BadAnswer(MinerFailed):
    """A miner returned ids that do not exist, ids twice, or scores that are not finite."""


class GateNotMet(TtfError):
    """A `[[gates]]` entry was not reached in time."""

    exit_code = ExitCode.GATE


class StorageError(TtfError):
    """The disk is full, the folder is read-only, or the device answered with an error."""

    exit_code = ExitCode.STORAGE


class LimitTooLow(TtfError):
    """The system allows too few open files or processes."""

    exit_code = ExitCode.UNSAFE


class FolderInUse(TtfError):
    """Another live process holds the run folder."""

    exit_code = ExitCode.IN_USE


class NoCheckpoint(TtfError):
    """There is no intact checkpoint to resume from."""

    exit_code = ExitCode.NO_CHECKPOINT


class PeerLost(TtfError):
    """Another process of the run, perhaps on another host, is gone or does not answer: the
    consequence of a death elsewhere, never a cause."""

    exit_code = ExitCode.GAVE_UP


class RanksDrifted(NumericFailure):
    """The processes of a run should hold the same weights, or compute the same gradient, and do not:
    a fault of a machine. A restart goes on from a checkpoint that all agreed on."""


class RanksDisagree(ConfigError):
    """The processes of a run have different configurations, data or results."""


class Stopped(KeyboardInterrupt):
    """The run was asked to stop, by Ctrl-C or a signal; a checkpoint was saved first.

    No Exception, like KeyboardInterrupt: a loop over runs with `except Exception` ends as well.
    """

    def __init__(self, signum: int, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint
        self.details: dict[str, Any] = {}
        self.exit_code = ExitCode.INTERRUPTED if signum == signal.SIGINT else ExitCode.TERMINATED


Told: TypeAlias = TtfError | Stopped
"""What ends with a message for the user, a hint and an exit code."""


_MOST_LISTED = 60
_LONGEST_COMPARED = 100  # The comparison takes time with the square of the length.


def suggestion(name: str, known: Iterable[str]) -> str:
    """' Did you mean ...? Known: ...' for an error message.

    >>> suggestion("hnswlb", ["faiss", "hnswlib"])
    " Did you mean 'hnswlib'? Known: faiss, hnswlib."
    """
    names = sorted(known)
    close = difflib.get_close_matches(name[:_LONGEST_COMPARED], names, n=1)
    meant = f" Did you mean {close[0]!r}?" if close else ""
    more = ", ..." if len(names) > _MOST_LISTED else ""
    return f"{meant} Known: {', '.join(names[:_MOST_LISTED])}{more}." if names else meant


def no_temporary_folder(error: OSError) -> StorageError | None:
    """The error for the user if `tempfile` found no folder; None for another OSError."""
    if not isinstance(error, FileNotFoundError) or "usable temporary directory" not in str(error):
        return None
    return StorageError(
        "No folder takes a temporary file: neither TMPDIR nor /tmp, /var/tmp, /usr/tmp and the current "
        "folder. Usually the disk is full or read-only.",
        hint="Free some space, or set TMPDIR to a folder on another disk.",
    )


def storage_error(error: OSError, what: str) -> StorageError:
    """Turns an OSError from writing `what` into the error for the user."""
    import errno

    hints = {
        errno.ENOSPC: "Free some space, or choose another folder.",
        errno.EDQUOT: "Your disk quota is full. Free some space, or choose another folder.",
        errno.EROFS: "The file system is read-only. Make it writable, or use another folder.",
        errno.EACCES: "You have no write permission there. Get it, or use another folder.",
        errno.EPERM: "You have no write permission there. Get it, or use another folder.",
        errno.ENOLCK: "The file system has no locks, and without one two commands could write to the "
        "same folder. Mount it with locks, or use another folder, on a disk of this machine.",
        errno.EIO: "The disk reported an input/output error. Check the disk before you use it again.",
    }
    reason = error.strerror or type(error).__name__
    return StorageError(f"Could not write {what}: {reason}.", hint=hints.get(error.errno or 0, ""))
