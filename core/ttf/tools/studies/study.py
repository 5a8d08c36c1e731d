"""A study's folder: its setup, a journal of finished runs, its owner, and recovery after any death.

study.json   the setup; for some commands also a record of how it was carried out
*.jsonl      a line per finished run, durable before the next run begins
runs/        kept files of each run
result.json  exists when nothing is left to do
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, Protocol, Self, TypeVar

from filelock import FileLock, Timeout

from ttf.errors import (
    ArtifactDamaged,
    ConfigError,
    DataChanged,
    DataMissing,
    EntryRefused,
    FolderInUse,
    TtfError,
    storage_error,
)
from ttf.rundir import durable, removing
from ttf.rundir.confined import (
    MOST_CONFIG_BYTES,
    names_in,
    raw_lines,
    read_json,
    read_named,
    refuse_foreign,
    refuse_foreign_entries,
)
from ttf.rundir.new_folder import refuse_taken
from ttf.rundir.removing import remove, remove_if_there
from ttf.rundir.run_folder import note_pid, noted_pid
from ttf.text.limited_json import parsed_json
from ttf.text.shell import quoted
from ttf.tools.studies.same_data import fingerprints
from ttf.tools.studies.started_here import WouldRun, note_start, refuse_strangers

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

SETTINGS: Final = "study.json"
RESULT: Final = "result.json"
_RUNS: Final = Path("runs")


class StudySetup(Protocol):
    """The setup of a study: a dataclass."""

    @property
    def identity(self) -> object:
        """Equal for two commands that ask for the same study."""

    @property
    def configs(self) -> Mapping[str, str]:
        """The SHA-256 of every configuration, by its path."""

    @property
    def data_seen(self) -> Mapping[str, str]:
        """Fingerprints of the files that all runs read, by their paths; see `fingerprints`."""


SetupT = TypeVar("SetupT", bound=StudySetup)
RunT = TypeVar("RunT", bound="DataclassInstance")


@dataclass(kw_only=True)
class Study(ABC, Generic[SetupT, RunT]):
    """A study and its runs so far. `begin` and `open` lock its folder; `read` does not."""

    COMMAND: ClassVar[str]  # `ttf ab` has studies in runs/ab-001, runs/ab-002, ...
    JOURNAL: ClassVar[str]
    RUN_NOUN: ClassVar[str]  # the name of a run in messages
    PAGES: ClassVar[tuple[str, ...]] = ()  # files for people, beside journal and result
    FOLDERS: ClassVar[tuple[str, ...]] = ("runs",)  # that runs are written to

    folder: Path
    setup: SetupT
    runs: list[RunT] = field(default_factory=list)  # in the order they finished, void runs included
    lock: FileLock | None = None
    # False: its runs open no URL, because only the folder names it, see `refuse_remote`.
    allow_remote: bool = True

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """The document study.json."""

    @classmethod
    @abstractmethod
    def restored(
        cls, folder: Path, settings: Mapping[str, Any], lines: Sequence[Mapping[str, Any]]
    ) -> Self:
        """From study.json and the journal. LookupError, TypeError or ValueError: another kind of
        study, or none that this program wrote."""

    @classmethod
    def would_run(cls, setup: SetupT) -> WouldRun | None:
        """The commands of anybody; None for a study of ttf's own runs."""
        return None

    def line(self, run: RunT) -> dict[str, Any]:
        """Of the journal."""
        return asdict(run)

    @abstractmethod
    def kept_runs(self) -> Collection[str]:
        """Folders in runs/ that belong to finished runs."""

    # --- begun, found, continued ------------------------------------------------------------------

    @classmethod
    def find(cls, identity: object, out: Path | None) -> Path | None:
        """The folder of an earlier study with this identity, or None.

        Without `out` only unfinished studies count. Raises ConfigError if `out` has another study.
        """
        if out is None:
            begun = sorted(_RUNS.glob(f"{cls.COMMAND}-*"), reverse=True)
            open_ones = (folder for folder in begun if not (folder / RESULT).exists())
            return next((folder for folder in open_ones if cls._asks(folder, identity)), None)
        if not (out / SETTINGS).exists():
            return None
        if not cls._asks(out, identity):
            raise ConfigError(
                f"{out} contains a different study.",
                hint=(
                    f"To continue that study: {cls.resume_command(out)}. For a new study, "
                    "choose another --out."
                ),
            )
        return out

    @classmethod
    def new_folder(cls, out: Path | None) -> Path:
        return out or next_folder(_RUNS, cls.COMMAND)

    def begin(self) -> Self:
        refuse_taken(self.folder, (self.JOURNAL, RESULT, "runs", *self.PAGES), "study")
        self.lock = claim(self.folder)
        self.write_settings()
        if (commands := self.would_run(self.setup)) is not None:
            note_start(self.folder, commands)
        return self

    @classmethod
    def open(cls, folder: Path, *, allow_remote: bool = True, given: SetupT | None = None) -> Self:
        """Locks a study to continue it; `given` is the setup of the user's own command line. Raises
        ConfigError if a configuration has changed, or if it runs commands and the user neither
        started it here nor gave the same ones."""
        cls.read(folder)  # refuses what is no study, before claiming would make a folder of it
        lock = claim(folder, (SETTINGS, cls.JOURNAL, RESULT))
        try:
            study = cls.read(folder)
            study.lock = lock
            study.allow_remote = allow_remote
            study._refuse_strangers(given)
            study._refuse_changed_configs()
            study._refuse_changed_data()
            removing.remove_leftovers(folder, folder)
            study._remove_unfinished_runs()
        except BaseException:
            release(folder, lock)
            raise
        return study

    @classmethod
    def read(cls, folder: Path) -> Self:
        """The current state, also while another process continues the study. Not for writing."""
        try:
            settings = read_json(folder / SETTINGS, folder)
            # A link there would lead everything that reads, writes and removes in a run elsewhere.
            refuse_foreign_entries(folder, cls.FOLDERS)
            return cls.restored(folder, settings, list(cls._lines(folder)))
        except (OSError, LookupError, TypeError, ValueError) as error:
            why = "" if isinstance(error, OSError) else f" ({type(error).__name__}: {error})"
            raise DataMissing(
                f"{folder} contains no study of ttf {cls.COMMAND}{why}.",
                hint=(
                    f"Give the folder that ttf {cls.COMMAND} printed, for example "
                    f"runs/{cls.COMMAND}-001."
                ),
            ) from None

    @classmethod
    def _lines(cls, folder: Path) -> Iterator[dict[str, Any]]:
        journal = folder / cls.JOURNAL
        with contextlib.suppress(FileNotFoundError):
            for number, raw in enumerate(raw_lines(journal, folder), start=1):
                try:
                    yield dict(parsed_json(raw))
                except (TypeError, ValueError) as error:
                    raise ArtifactDamaged(
                        f"{journal}: line {number} is damaged: {error}.",
                        hint="Restore the file from a copy, or remove this line: what it tells is "
                        "then done again.",
                    ) from None

    @classmethod
    def holds_one(cls, folder: Path) -> bool:
        with contextlib.suppress(TtfError):
            return bool(cls.read(folder))
        return False

    def close(self) -> None:
        if self.lock is not None:
            release(self.folder, self.lock)

    @classmethod
    def resume_command(cls, folder: Path) -> str:
        return f"ttf {cls.COMMAND} --resume {quoted(folder)}"

    # --- writing ---------------------------------------------------------------------------------

    def write_settings(self) -> None:
        data = durable.json_bytes(self.settings())
        self._write(self.folder / SETTINGS, data)

    def remember(self, run: RunT) -> None:
        """Durable when this returns."""
        self.runs.append(run)
        self.write_journal()

    def write_journal(self) -> None:
        lines = [json.dumps(durable.finite(self.line(r)), allow_nan=False) for r in self.runs]
        data = "".join(f"{line}\n" for line in lines).encode()
        # Written anew and put in the old one's place: an appended line could be torn by kill -9.
        self._write(self.folder / self.JOURNAL, data)

    def _write(self, path: Path, data: bytes) -> None:
        # A command is kept as it is, to run it again: it may hold a token.
        private = self.would_run(self.setup) is not None
        durable.write_atomically(path, data, self.COMMAND, private=private)

    @classmethod
    def _asks(cls, folder: Path, identity: object) -> bool:
        with contextlib.suppress(TtfError):
            return cls.read(folder).setup.identity == identity
        return False

    def _refuse_strangers(self, given: SetupT | None) -> None:
        recorded = self.would_run(self.setup)
        if recorded is not None:
            wanted = None if given is None else self.would_run(given)
            # To be given in the folder of the commands, where a relative path leads elsewhere.
            there = Path(recorded.cwd) == Path.cwd()
            folder = self.folder if there else self.folder.absolute()
            refuse_strangers(self.folder, recorded, wanted, self.repeat_command(folder))

    def repeat_command(self, folder: Path) -> str:
        """Continues the study, and says once more what it runs."""
        return self.resume_command(folder)

    def _refuse_changed_configs(self) -> None:
        then = self.setup.configs
        changed = [path for path, sha256 in then.items() if sha256_of(Path(path)) != sha256]
        if changed:
            raise ConfigError(
                f"{', '.join(changed)}: changed since the start of the study in {self.folder}.",
                hint="Restore the original, or start a new study.",
            )

    def _refuse_changed_data(self) -> None:
        """Runs of other data cannot be compared with those that are there."""
        now = fingerprints(self.setup.data_seen)
        changed = [path for path, seen in self.setup.data_seen.items() if now[path] != seen]
        if changed and self.runs:
            what = "; ".join(
                f"{path} ({now[path]}, then {self.setup.data_seen[path]})" for path in changed
            )
            raise DataChanged(
                f"The data of the study in {self.folder} are others than at its start: {what}.",
                hint="Put the original back, or start a new study with another --out.",
            )

    def _remove_unfinished_runs(self) -> None:
        # Runs that were active when the study was killed are repeated.
        kept, runs = self.kept_runs(), self.folder / "runs"
        with contextlib.suppress(FileNotFoundError):
            for name in names_in(runs, self.folder):
                if name not in kept and _RUN_NAME.fullmatch(name):
                    remove(runs / name, self.folder)


_OWNER: Final = ".owner"
_LOCK: Final = ".lock"
# A run's folder, and what it prints while it runs.
_RUN_NAME: Final = re.compile(r"\d{3,}(-[\w.=+-]+)?(\.out|\.err)?")


def claim(folder: Path, files: Iterable[str] = ()) -> FileLock:
    """Locks the folder, and makes it if needed. `files` are those that will be written. Raises
    FolderInUse with the owner, and EntryRefused."""
    lock = FileLock(folder / _LOCK)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        refuse_foreign(folder, (_LOCK, _OWNER, *files))
        lock.acquire(timeout=0)
        note_pid(folder / _OWNER)
    except Timeout:
        raise FolderInUse(
            f"Another process is using {folder}{_holder(folder)}.",
            hint="Wait until it ends, stop it, or choose another --out.",
        ) from None
    except (OSError, EntryRefused) as error:
        lock.release()
        if isinstance(error, EntryRefused):
            raise
        raise storage_error(error, str(folder)) from error
    return lock


def release(folder: Path, lock: FileLock) -> None:
    with contextlib.suppress(OSError):
        remove_if_there(folder / _OWNER, folder)
    lock.release()


def _holder(folder: Path) -> str:
    pid = noted_pid(folder / _OWNER)
    return "" if pid is None else f" (process {pid})"


def next_folder(runs: Path, prefix: str) -> Path:
    """Makes the next free `prefix-NNN`."""
    for number in itertools.count(1):
        path = runs / f"{prefix}-{number:03d}"
        try:
            path.mkdir(parents=True)
        except FileExistsError:
            continue
        except OSError as error:
            raise storage_error(error, str(path)) from error
        return path
    raise AssertionError


def sha256_of(path: Path) -> str:
    """Of a configuration. Raises ConfigError."""
    try:
        return hashlib.sha256(read_named(path, MOST_CONFIG_BYTES)).hexdigest()
    except (OSError, ArtifactDamaged, ValueError) as error:  # ValueError: a null byte in the path
        said = str(error).removeprefix(f"{path} ").rstrip(".")
        reason = error.strerror if isinstance(error, OSError) and error.strerror else said
        raise ConfigError(
            f"Could not read {path}: {reason}.",
            hint="Give a run.toml, or the folder of a run.",
        ) from error
