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
import os
import shutil
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, Protocol, Self, TypeVar

from filelock import FileLock, Timeout

from ttf.errors import ConfigError, DataMissing, FolderInUse, TtfError, storage_error
from ttf.rundir import durable
from ttf.text.shell import quoted

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


SetupT = TypeVar("SetupT", bound=StudySetup)
RunT = TypeVar("RunT", bound="DataclassInstance")


@dataclass(kw_only=True)
class Study(ABC, Generic[SetupT, RunT]):
    """A study and its runs so far. `begin` and `open` lock its folder; `read` does not."""

    COMMAND: ClassVar[str]  # `ttf ab` has studies in runs/ab-001, runs/ab-002, ...
    JOURNAL: ClassVar[str]
    RUN_NOUN: ClassVar[str]  # the name of a run in messages

    folder: Path
    setup: SetupT
    runs: list[RunT] = field(default_factory=list)  # in the order they finished, void runs included
    lock: FileLock | None = None

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """The document study.json."""

    @classmethod
    @abstractmethod
    def restored(
        cls, folder: Path, settings: Mapping[str, Any], lines: Sequence[Mapping[str, Any]]
    ) -> Self:
        """From study.json and the journal. LookupError or TypeError: another kind of study."""

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
        self.lock = claim(self.folder)
        self.write_settings()
        return self

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Locks a study to continue it. Raises ConfigError if a configuration has changed."""
        cls.read(folder)  # refuses what is no study, before claiming would make a folder of it
        lock = claim(folder)
        try:
            study = cls.read(folder)
            study.lock = lock
            study._refuse_changed_configs()
            durable.remove_leftovers(folder)
            study._remove_unfinished_runs()
        except BaseException:
            release(folder, lock)
            raise
        return study

    @classmethod
    def read(cls, folder: Path) -> Self:
        """The current state, also while another process continues the study. Not for writing."""
        journal = folder / cls.JOURNAL
        try:
            settings = durable.read_json(folder / SETTINGS)
            lines = journal.read_text().splitlines() if journal.exists() else []
            return cls.restored(folder, settings, [json.loads(line) for line in lines])
        except (OSError, LookupError, TypeError):
            raise DataMissing(
                f"{folder} contains no study of ttf {cls.COMMAND}.",
                hint=(
                    f"Give the folder that ttf {cls.COMMAND} printed, for example "
                    f"runs/{cls.COMMAND}-001."
                ),
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
        durable.write_atomically(self.folder / SETTINGS, data, self.COMMAND)

    def remember(self, run: RunT) -> None:
        """Durable when this returns."""
        self.runs.append(run)
        lines = [json.dumps(durable.finite(asdict(r)), allow_nan=False) for r in self.runs]
        data = "".join(f"{line}\n" for line in lines).encode()
        # Written anew and put in the old one's place: an appended line could be torn by kill -9.
        durable.write_atomically(self.folder / self.JOURNAL, data, self.COMMAND)

    @classmethod
    def _asks(cls, folder: Path, identity: object) -> bool:
        with contextlib.suppress(TtfError, ValueError):
            return cls.read(folder).setup.identity == identity
        return False

    def _refuse_changed_configs(self) -> None:
        then = self.setup.configs
        changed = [path for path, sha256 in then.items() if sha256_of(Path(path)) != sha256]
        if changed:
            raise ConfigError(
                f"{', '.join(changed)}: changed since the start of the study in {self.folder}.",
                hint="Restore the original, or start a new study.",
            )

    def _remove_unfinished_runs(self) -> None:
        # Runs that were active when the study was killed are repeated.
        kept = self.kept_runs()
        for path in (self.folder / "runs").glob("*"):
            if path.name not in kept:
                shutil.rmtree(path) if path.is_dir() else path.unlink()


_OWNER: Final = ".owner"


def claim(folder: Path) -> FileLock:
    """Locks the folder, and makes it if needed. Raises FolderInUse with the owner."""
    lock = FileLock(folder / ".lock")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock.acquire(timeout=0)
        (folder / _OWNER).write_text(str(os.getpid()))
    except Timeout:
        raise FolderInUse(
            f"Another process is using {folder}{_holder(folder)}.",
            hint="Wait until it ends, stop it, or choose another --out.",
        ) from None
    except OSError as error:
        lock.release()
        raise storage_error(error, str(folder)) from error
    return lock


def release(folder: Path, lock: FileLock) -> None:
    with contextlib.suppress(OSError):
        (folder / _OWNER).unlink(missing_ok=True)
    lock.release()


def _holder(folder: Path) -> str:
    with contextlib.suppress(OSError, ValueError):
        return f" (process {int((folder / _OWNER).read_text())})"
    return ""


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
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise ConfigError(
            f"Could not read {path}: {error.strerror}.",
            hint="Give a run.toml, or the folder of a run.",
        ) from error
