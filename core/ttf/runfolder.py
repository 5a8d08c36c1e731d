"""A run's folder: its names, its lock, and the files that grow while the run goes on."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self, TextIO

from filelock import FileLock, Timeout

from ttf.errors import ConfigError, DataMissing, FolderInUse, storage_error
from ttf.fsio import (
    finite,
    fsync_file,
    read_json,
    remove_leftovers,
    write_atomically,
    write_json,
)
from ttf.lifeline import is_stopped

_ORPHANS_LEAVE_S = 10.0
FOLDERS = ("checkpoints", "candidates", "index", "incidents")


class RunFolder:
    """Paths of a run, and its two locks.

    `with folder:` claims the run: a second `ttf train` or `ttf resume` on it is refused.
    `with folder.writing():` is held by the process that writes, which may be the claimer's child.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config = path / "run.toml"
        self.manifest = path / "manifest.json"
        self.metrics = path / "metrics.jsonl"
        self.memory = path / "memory.jsonl"
        self.checkpoints = path / "checkpoints"
        self.candidates = path / "candidates"
        self.index = path / "index"
        self.model = path / "model"
        self.summary = path / "summary.json"
        self.incidents = path / "incidents"
        self.supervision = path / "supervision.json"
        self.flight = path / "flight.bin"
        self.stderr = path / "stderr.txt"
        self.stacks = path / "faulthandler.txt"
        self._lock = FileLock(path / ".lock")
        self._writer = FileLock(path / ".writer")
        self._made = False

    @classmethod
    def new(cls, path: Path | None) -> RunFolder:
        """A folder for a new run, locked until `close`; `runs/run-001` and counting where none is
        named."""
        try:
            made = True
            if path is None:
                path = _make_next(Path("runs"))
            else:
                made = not path.exists()
                path.mkdir(parents=True, exist_ok=True)
            folder = cls(path)
            folder._made = made
            folder._acquire()
            if folder.config.exists():
                folder.close()
                raise ConfigError(
                    f"{path} already holds a run.",
                    hint=folder._continue_hint(),
                )
            for name in FOLDERS:
                (path / name).mkdir(exist_ok=True)
        except OSError as error:
            raise storage_error(error, str(path or "runs")) from error
        return folder

    def _continue_hint(self) -> str:
        """What works: a run that failed before its first checkpoint cannot be resumed."""
        if next(self.checkpoints.glob("step-*"), None) is None and not self.summary.is_file():
            again = f"ttf train {shlex.quote(str(self.config))} --out ANOTHER_DIR"
            return f"It has no checkpoint to continue from; start it anew with: {again}"
        return (
            f"Continue it with: ttf resume {shlex.quote(str(self.path))}, or choose another --out."
        )

    def abandon(self) -> None:
        """Removes what `new` made, where no run began in it: bad input leaves no folder behind.

        Only while the lock is held: another run may have taken the folder otherwise.
        """
        if not self._lock.is_locked or self.config.exists():
            return
        own = (".owner", ".lock", ".writer", self.flight.name, self.stderr.name, self.stacks.name)
        for name in (*own, self.memory.name, self.supervision.name):
            (self.path / name).unlink(missing_ok=True)
        for made in [*(self.path / name for name in FOLDERS), *([self.path] if self._made else [])]:
            with contextlib.suppress(OSError):  # somebody put a file there: it stays
                made.rmdir()

    def close(self) -> None:
        """Lets go of the lock; does nothing where it is not held."""
        while self._lock.is_locked:
            self._release()

    @classmethod
    def existing(cls, path: Path) -> RunFolder:
        folder = cls(path)
        if not folder.config.is_file():
            raise DataMissing(
                f"{path} is not a run folder: it has no run.toml.",
                hint="Name the folder that ttf train printed, e.g. runs/run-001.",
            )
        return folder

    def __enter__(self) -> Self:
        self._acquire()
        return self

    def __exit__(self, *_: object) -> None:
        self._release()

    def _acquire(self) -> None:
        """May be nested; the outermost one tidies up after a process that was killed."""
        outermost = not self._lock.is_locked
        try:
            self._lock.acquire(timeout=0)
        except Timeout:
            raise FolderInUse(
                f"{self.path} is in use by another live process{self._holder()}.",
                hint="Wait for it, stop it, or choose another --out.",
            ) from None
        except OSError as error:
            raise storage_error(error, str(self.path)) from error
        if outermost:
            try:
                self._take_over()
            except OSError as error:
                self._lock.release()
                raise storage_error(error, str(self.path)) from error

    def _take_over(self) -> None:
        (self.path / ".owner").write_text(str(os.getpid()))
        if self.config.exists():  # a run's folder: what is unfinished in it is ours
            self.tidy()

    def tidy(self) -> None:
        """Removes what a dead process left unfinished; call it with the folder claimed."""
        with self.writing():
            for folder in (self.path, self.checkpoints, self.candidates, self.index):
                remove_leftovers(folder)

    @contextlib.contextmanager
    def writing(self) -> Iterator[Self]:
        """Held by the one process that writes the run's files.

        Whoever claimed the folder may have died and left a child behind, which is gone a moment
        later: so this waits.
        """
        try:
            self._writer.acquire(timeout=_ORPHANS_LEAVE_S)
        except Timeout:
            raise FolderInUse(
                f"{self.path} is still written to by a process whose supervisor is gone.",
                hint="Look for it with: fuser " + shlex.quote(str(self.path / ".writer")),
            ) from None
        except OSError as error:
            raise storage_error(error, str(self.path)) from error
        try:
            yield self
        finally:
            self._writer.release()

    def _release(self) -> None:
        if self._lock.lock_counter == 1:
            with contextlib.suppress(OSError):  # the disk may have gone: the lock goes all the same
                (self.path / ".owner").unlink(missing_ok=True)
        self._lock.release()

    def _holder(self) -> str:
        with contextlib.suppress(OSError, ValueError):  # it may end, and tidy up, while we look
            pid = int((self.path / ".owner").read_text())
            if is_stopped(pid):
                return f" (process {pid}, which is stopped: kill -CONT {pid} lets it go on)"
            return f" (process {pid})"
        return ""

    def read_summary(self) -> dict[str, Any]:
        """summary.json, or an empty dict if the run never came that far."""
        return dict(read_json(self.summary)) if self.summary.is_file() else {}

    def write_summary(self, summary: Mapping[str, Any]) -> None:
        write_json(self.summary, dict(summary))


def _make_next(runs: Path) -> Path:
    """Makes the next free folder; two runs that start at once get two."""
    numbers = [
        int(p.name.removeprefix("run-"))
        for p in runs.glob("run-*")
        if p.name.removeprefix("run-").isdigit()
    ]
    for number in itertools.count(max(numbers, default=0) + 1):
        path = runs / f"run-{number:03d}"
        with contextlib.suppress(FileExistsError):
            path.mkdir(parents=True)
            return path
    raise AssertionError


class MetricsLog:
    """metrics.jsonl: a line per event, each step once however often the run was resumed."""

    def __init__(self, path: Path, resume_step: int | None) -> None:
        """`resume_step` None starts the file anew; otherwise later lines are dropped first."""
        self._path = path
        kept = [] if resume_step is None else _lines_until(path, resume_step)
        write_atomically(path, "".join(kept).encode())
        try:
            self._file: TextIO = path.open("a", encoding="utf-8")
        except OSError as error:
            raise storage_error(error, str(path)) from error

    def write(self, record: Mapping[str, Any]) -> None:
        try:
            self._file.write(json.dumps(finite(dict(record)), allow_nan=False) + "\n")
            self._file.flush()
        except OSError as error:
            raise storage_error(error, str(self._path)) from error

    def sync(self) -> None:
        """Makes what was written durable; called with every checkpoint."""
        try:
            self._file.flush()
            fsync_file(self._file.fileno())
        except OSError as error:
            raise storage_error(error, str(self._path)) from error

    def close(self) -> None:
        self._file.close()


def _lines_until(path: Path, step: int) -> list[str]:
    """Whole lines up to a step; a line the last process did not finish is dropped.

    A checkpoint is made before the mining that its step starts with, which happens again.
    """
    if not path.is_file():
        return []
    kept = []
    with path.open(encoding="utf-8", errors="replace") as file:
        for line in file:
            try:
                record = json.loads(line)
            except json.JSONDecodeError:
                continue
            if not isinstance(record, dict) or not line.endswith("\n"):
                continue
            if record.get("step", 0) < step + (record.get("type") != "mining"):
                kept.append(line)
    return kept
