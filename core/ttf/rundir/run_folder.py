"""A run's folder: its names, its lock, and the files that grow during the run."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from io import FileIO
from pathlib import Path
from typing import Final, Self

from filelock import FileLock, Timeout

from ttf.errors import (
    ArtifactDamaged,
    ConfigError,
    DataMissing,
    EntryRefused,
    FolderInUse,
    MadeByNewerVersion,
    StorageError,
    TtfError,
    storage_error,
)
from ttf.host.version import __version__
from ttf.rundir.confined import (
    append_inside,
    found_json,
    read_inside,
    refuse_foreign,
    write_inside,
)
from ttf.rundir.documents import DECISION, RUN_FORMAT, Manifest, Summary
from ttf.rundir.durable import write_json
from ttf.rundir.incident_files import incident_folders
from ttf.rundir.new_folder import make_next, refuse_taken, remove_partial
from ttf.rundir.removing import remove_if_there, remove_leftovers
from ttf.rundir.typed_json import typed
from ttf.text.shell import quoted

_ORPHANS_LEAVE_S = 10.0
_MOST_PID_BYTES: Final = 20
_MOST_PID: Final = 1 << 31
_NAMED_WITHIN_S = 0.5
_MOST_LOG_BYTES: Final = 8 << 20  # A run of 60 days at one line in 30 seconds.
FOLDERS = ("checkpoints", "candidates", "index", "incidents")
# What a run writes before its run.toml, and after it.
_FIRST: Final = (
    *FOLDERS,
    "faulthandler.txt",
    "flight.bin",
    "inputs",
    "log.txt",
    "manifest.json",
    "memory.jsonl",
    "stderr.txt",
    "supervision.json",
)
_RESULTS: Final = ("calibration", "model")
_LATER: Final = (*_RESULTS, "metrics.jsonl", "report.html", "run.toml", "summary.json")
_LOCKS: Final = (".lock", ".owner", ".writer")


class RunFolder:
    """Paths of a run, and its two locks.

    `with folder:` claims the run: a second `ttf train` or `ttf resume` on it is refused. `with
    folder.writing():` is held by the process that writes, perhaps a child of the claiming process.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config = path / "run.toml"
        self.manifest = path / "manifest.json"
        self.environment = path / "environment.json"  # Guarded commands only.
        self.metrics = path / "metrics.jsonl"
        self.memory = path / "memory.jsonl"
        self.checkpoints = path / "checkpoints"
        self.candidates = path / "candidates"
        self.index = path / "index"
        self.model = path / "model"
        self.summary = path / "summary.json"
        self.incidents = path / "incidents"
        self.inputs = path / "inputs"  # Arrays of a Python caller.
        self.supervision = path / "supervision.json"
        self.flight = path / "flight.bin"
        self.stderr = path / "stderr.txt"
        self.log = path / "log.txt"
        self.stacks = path / "faulthandler.txt"
        self.owner = path / ".owner"
        self._lock = FileLock(path / ".lock")
        self._writer = FileLock(path / ".writer")
        self._made = False
        self._made_parent = False

    @classmethod
    def new(cls, path: Path | None) -> RunFolder:
        """A folder for a new run, locked until `close`; default `runs/run-001` and counting."""
        made = path is None or not path.exists()
        made_parent = False
        try:
            if path is None:
                made_parent = not Path("runs").exists()
                path = make_next(Path("runs"), "run")
            path.mkdir(parents=True, exist_ok=True)
            folder = cls(path)
            folder._made = made
            folder._made_parent = made_parent
            if not (path / ".lock").exists():
                # Nobody began a run here: a folder of somebody else is left as it is. What a run
                # leaves that was killed before its run.toml is used again.
                folder._refuse_taken((*_FIRST, *_LATER))
            folder._acquire(tidy=False)
            try:
                folder._refuse_taken(_LATER)
            except ConfigError:
                folder.close()
                raise
            folder.make_folders()
        except (OSError, StorageError) as error:
            if made and path is not None:
                remove_partial(path, (".owner", ".lock"), FOLDERS)
            if isinstance(error, StorageError):
                raise
            raise storage_error(error, str(path or "runs")) from error
        return folder

    def _refuse_taken(self, names: tuple[str, ...]) -> None:
        """Raises ConfigError if a new run would replace a run, or files of somebody else."""
        path = self.path
        decided = (path / DECISION).exists()
        if decided or self.is_run():
            what = "decision" if decided else "run"
            raise ConfigError(
                f"{path} already contains a {what}.",
                hint=f"To continue the {what}: ttf resume {quoted(path)}. For a new run, choose "
                "another --out.",
            )
        refuse_taken(path, names, "run")

    def is_run(self) -> bool:
        """A run.toml alone may be the user's own. A run has its manifest first; a copy of one may
        have only the model."""
        marks = (self.manifest, self.checkpoints, self.model)
        return self.config.is_file() and any(mark.exists() for mark in marks)

    def make_folders(self) -> None:
        """Those that are missing: a copy of a run may come without the empty ones. Raises
        StorageError."""
        try:
            for name in FOLDERS:
                (self.path / name).mkdir(exist_ok=True)
        except OSError as error:
            raise storage_error(error, str(self.path)) from error

    def abandon(self, *, refused: bool = False) -> None:
        """Removes what `new` made, if no run began in it: bad input leaves no folder behind.

        `refused`: configuration or data were refused; then a run that took no step goes too. Only
        while the lock is held: otherwise another run may have taken the folder.
        """
        if not self._lock.is_locked:
            return
        if self.config.exists():
            if not refused or not self._took_no_step():
                return
            for path in (self.config, self.manifest, self.metrics, self.summary, self.model):
                remove_if_there(path, self.path)
            for path in (self.candidates, self.index, self.path / "report.html"):
                remove_if_there(path, self.path)
        for made in (self.inputs, self.path / "ranks"):
            remove_if_there(made, self.path)
        own = (".owner", ".lock", ".writer", self.flight.name, self.stderr.name, self.stacks.name)
        for name in (*own, self.log.name, self.memory.name, self.supervision.name):
            remove_if_there(self.path / name, self.path)
        folders = [self.path / name for name in FOLDERS]
        folders += [self.path] if self._made else []
        folders += [self.path.parent] if self._made_parent else []
        for made in folders:
            with contextlib.suppress(OSError):  # it holds another file: it stays
                made.rmdir()

    def _took_no_step(self) -> bool:
        """False as well if anything is there that could explain or continue the run."""
        kept = (self.checkpoints, self.incidents)
        if any(folder.is_dir() and any(folder.iterdir()) for folder in kept):
            return False
        return self.read_summary().get("steps", 0) == 0

    def close(self) -> None:
        """Releases the lock; does nothing if it is not held."""
        while self._lock.is_locked:
            self._release()

    @classmethod
    def existing(cls, path: Path) -> RunFolder:
        folder = cls(path)
        if not folder.config.is_file():
            hint = "Use the folder that ttf train printed, for example runs/run-001."
            if (path / DECISION).is_file():
                hint = f"It holds the runs of ttf train --else: ttf runs show {quoted(path)}"
            raise DataMissing(f"{path} is not a run folder: it has no run.toml.", hint=hint)
        if not folder.is_run():
            raise DataMissing(
                f"{path} contains a run.toml, but no run.",
                hint=f"To start a run with it: ttf train {quoted(folder.config)} --out NEW_FOLDER",
            )
        folder.refuse_newer()
        return folder

    def refuse_newer(self) -> None:
        """Raises MadeByNewerVersion if this version could read the files wrongly."""
        manifest = typed(found_json(self.manifest, self.path), Manifest)
        if manifest.get("format", RUN_FORMAT) > RUN_FORMAT:
            raise MadeByNewerVersion(
                f"{self.path} was written by ttf {manifest.get('ttf', 'of a later version')}: its "
                f"files have format {manifest['format']}. This is ttf {__version__}, which reads "
                f"format {RUN_FORMAT}.",
                hint="Use that version: pip install --upgrade twotower",
            )

    def claim(self) -> Self:
        """Locks the folder until `close`; may be nested, see `with`."""
        self._acquire()
        return self

    def __enter__(self) -> Self:
        return self.claim()

    def __exit__(self, *_: object) -> None:
        self._release()

    def _acquire(self, *, tidy: bool = True) -> None:
        # May be nested; the outermost call removes leftovers of a killed process.
        outermost = not self._lock.is_locked
        if outermost:
            self._refuse_foreign()
        try:
            self._lock.acquire(timeout=0)
        except Timeout:
            raise FolderInUse(
                f"Another process is using {self.path}{self._owner_text()}.",
                hint="Wait until it ends, stop it, or choose another --out.",
            ) from None
        except OSError as error:
            raise storage_error(error, str(self.path)) from error
        if outermost:
            try:
                note_pid(self.owner)
                if tidy and self.config.exists():  # unfinished files are the run's own
                    self.tidy()
            except (OSError, TtfError) as error:
                self._lock.release()
                if isinstance(error, TtfError):
                    raise
                raise storage_error(error, str(self.path)) from error

    def _refuse_foreign(self) -> None:
        # A run that writes must not be led out of its folder, by its owner's links neither.
        try:
            folders = (*FOLDERS, *_RESULTS)
            files = {*_LOCKS, *_FIRST, *_LATER, self.environment.name}
            refuse_foreign(self.path, sorted(files - {*folders, self.inputs.name}), folders)
        except OSError as error:
            raise storage_error(error, str(self.path)) from error

    def tidy(self) -> None:
        """Removes what a dead process left unfinished; call it with the folder claimed."""
        with self.writing():
            # Files lie beside the numbered folders of `incidents`.
            incidents = (self.incidents, *incident_folders(self.incidents))
            for folder in (self.path, self.checkpoints, self.candidates, self.index, *incidents):
                remove_leftovers(folder, self.path)

    @contextlib.contextmanager
    def writing(self) -> Iterator[Self]:
        """Held by the one process that writes the run's files.

        Waits, because the claiming process may have died and left a child that ends a moment later.
        """
        try:
            self._writer.acquire(timeout=_ORPHANS_LEAVE_S)
        except Timeout:
            raise FolderInUse(
                f"A process still writes to {self.path}, although its supervisor has ended.",
                hint="Find the process: fuser " + quoted(self.path / ".writer"),
            ) from None
        except OSError as error:
            raise storage_error(error, str(self.path)) from error
        try:
            yield self
        finally:
            self._writer.release()

    def _release(self) -> None:
        if self._lock.lock_counter == 1:
            with contextlib.suppress(OSError):  # even if the disk is gone, release the lock
                remove_if_there(self.owner, self.path)
        self._lock.release()

    def _owner_text(self) -> str:
        # The lock may be so new that its owner's name is not there yet, and a dead owner's is.
        from ttf.process.lifeline import is_stopped

        ends_at = time.monotonic() + _NAMED_WITHIN_S
        while time.monotonic() < ends_at:
            with contextlib.suppress(OSError):  # it may end, and tidy up, while we look
                if (pid := self.noted_owner()) is not None:
                    os.kill(pid, 0)
                    if is_stopped(pid):
                        return f" (process {pid}, which is paused: kill -CONT {pid} continues it)"
                    return f" (process {pid})"
            time.sleep(0.01)
        return ""

    def noted_owner(self) -> int | None:
        """The process that last claimed the folder; it may have ended since."""
        return noted_pid(self.owner)

    def read_summary(self) -> Summary:
        """summary.json; empty if there is none, or none that can be read: a run makes it again."""
        return typed(found_json(self.summary, self.path), Summary)

    def write_summary(self, summary: Summary) -> None:
        from ttf.text.secrets import Secrets  # not before there is a summary

        write_json(self.summary, Secrets().value(summary))


class RunLog:
    """log.txt: what a run said, line by line with the time; a resumed run goes on in it.

    Longer than 8 MiB, it loses its older half. A disk that takes no line never ends the run: that
    line is missing, and the next one is tried again.
    """

    def __init__(self, folder: RunFolder, *, resume: bool) -> None:
        self._file: FileIO | None = None
        with contextlib.suppress(OSError, EntryRefused):
            self._file = append_inside(folder.log, folder.path)
        self._said: set[str] = set()
        how = "resumed" if resume else "started"
        self.write(f"--- {how} by process {os.getpid()}, ttf {__version__}")

    def write(self, text: str, *, said_again: bool = False) -> None:
        """`said_again`: somebody else will write the same text later; that one is left out."""
        if self._file is None or text in self._said:
            self._said.discard(text)
            return
        if said_again:
            self._said.add(text)
        first, *more = text.splitlines() or [""]
        stamp = time.strftime("%Y-%m-%d %H:%M:%S")
        lines = [f"{stamp}  {first}", *(f"{'':{len(stamp)}}  {line}" for line in more)]
        data = "".join(f"{line}\n" for line in lines).encode(errors="replace")
        with contextlib.suppress(OSError):
            size = _shortened(self._file)
            if self._file.write(data) != len(data):  # all or nothing
                self._file.truncate(size)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        how = "finished"
        if error is not None:
            from ttf.text.secrets import Secrets

            how = Secrets().text(str(error) or type(error).__name__)
        self.write(f"--- ended: {how}")
        if self._file is not None:
            self._file.close()
            self._file = None


def _shortened(log: FileIO) -> int:
    """Returns its size, which is halved if it was too long."""
    size = log.seek(0, os.SEEK_END)
    if size <= _MOST_LOG_BYTES:
        return size
    kept = os.pread(log.fileno(), size // 2, size - size // 2)
    log.truncate(0)
    return log.write(kept[kept.find(b"\n") + 1 :])


def note_pid(note: Path) -> None:
    """Writes this process's number. Raises OSError and EntryRefused."""
    with write_inside(note, note.parent, anew=True) as file:
        file.write(str(os.getpid()).encode())


def noted_pid(note: Path) -> int | None:
    """The process number in the file `.owner` of a folder."""
    with contextlib.suppress(OSError, ArtifactDamaged):
        text = read_inside(note, note.parent, _MOST_PID_BYTES).strip()
        return int(text) if text.isdigit() and int(text) < _MOST_PID else None
    return None
