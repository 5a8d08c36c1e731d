"""A study's folder: what is asked, a journal of finished runs, whose it is, and how to go on after any
death.

study.json   what is asked, and where a command keeps one, a record of how it was carried out
*.jsonl      a line per finished run, durable before the next one begins
runs/        what is kept of each run
result.json  there once nothing is left to do
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import os
import shlex
import shutil
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, Protocol, Self, TypeVar

from filelock import FileLock, Timeout

from ttf.errors import ConfigError, DataMissing, FolderInUse, TtfError, storage_error
from ttf.rundir import durable

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

SETTINGS: Final = "study.json"
RESULT: Final = "result.json"
_RUNS: Final = Path("runs")


class StudySetup(Protocol):
    """What is asked of a study: a dataclass."""

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
    """All that is known of a study so far. `begin` and `open` claim its folder; `read` only looks."""

    COMMAND: ClassVar[str]
    """`ttf ab` has studies in runs/ab-001, runs/ab-002, ..."""
    JOURNAL: ClassVar[str]
    RUN_NOUN: ClassVar[str]
    """What a run is called in messages."""

    folder: Path
    setup: SetupT
    runs: list[RunT] = field(default_factory=list)
    """All that finished, in their order; also those that somebody else ended."""
    lock: FileLock | None = None

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """The document study.json."""

    @classmethod
    @abstractmethod
    def restored(
        cls, folder: Path, settings: Mapping[str, Any], lines: Sequence[Mapping[str, Any]]
    ) -> Self:
        """From study.json and the journal. LookupError or TypeError: of another kind of study."""

    @abstractmethod
    def kept_runs(self) -> Collection[str]:
        """Folders in runs/ that belong to finished runs."""

    # --- begun, found, continued ------------------------------------------------------------------

    @classmethod
    def find(cls, identity: object, out: Path | None) -> Path | None:
        """The folder of the study that this very command began before; None where there is none.
        Without `out` it is one that has not ended. ConfigError where `out` holds another study."""
        if out is None:
            begun = sorted(_RUNS.glob(f"{cls.COMMAND}-*"), reverse=True)
            open_ones = (folder for folder in begun if not (folder / RESULT).exists())
            return next((folder for folder in open_ones if cls._asks(folder, identity)), None)
        if not (out / SETTINGS).exists():
            return None
        if not cls._asks(out, identity):
            raise ConfigError(
                f"{out} holds another study.",
                hint=f"Continue that with: {cls.resume_command(out)}, or choose another --out.",
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
        """To go on with it; every configuration must be what it was."""
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
        """As it stands, also while another process goes on with it. Not to be written to."""
        journal = folder / cls.JOURNAL
        try:
            settings = durable.read_json(folder / SETTINGS)
            lines = journal.read_text().splitlines() if journal.exists() else []
            return cls.restored(folder, settings, [json.loads(line) for line in lines])
        except (OSError, LookupError, TypeError):
            raise DataMissing(
                f"{folder} holds no study of ttf {cls.COMMAND}.",
                hint=f"Name the folder that ttf {cls.COMMAND} printed, e.g. "
                f"runs/{cls.COMMAND}-001.",
            ) from None

    @classmethod
    def holds_one(cls, folder: Path) -> bool:
        """Whether a study of this kind is there."""
        with contextlib.suppress(TtfError):
            return bool(cls.read(folder))
        return False

    def close(self) -> None:
        if self.lock is not None:
            release(self.folder, self.lock)

    @classmethod
    def resume_command(cls, folder: Path) -> str:
        return f"ttf {cls.COMMAND} --resume {shlex.quote(str(folder))}"

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
                f"{', '.join(changed)}: not what it was when the study in {self.folder} began.",
                hint="Put it back, or begin a new study.",
            )

    def _remove_unfinished_runs(self) -> None:
        """Of runs that were going on when the study was killed: they are done anew."""
        kept = self.kept_runs()
        for path in (self.folder / "runs").glob("*"):
            if path.name not in kept:
                shutil.rmtree(path) if path.is_dir() else path.unlink()


_OWNER: Final = ".owner"


def claim(folder: Path) -> FileLock:
    """Makes the folder where it is not there; FolderInUse names who has it."""
    lock = FileLock(folder / ".lock")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock.acquire(timeout=0)
        (folder / _OWNER).write_text(str(os.getpid()))
    except Timeout:
        raise FolderInUse(
            f"{folder} is in use by another live process{_holder(folder)}.",
            hint="Wait for it, stop it, or choose another --out.",
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
    """Makes `prefix-NNN`, the next one that is free."""
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
    """Of a configuration; ConfigError where it cannot be read."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise ConfigError(
            f"{path} could not be read: {error.strerror}.",
            hint="Name a run.toml, or the folder of a run.",
        ) from error
