"""The folder of a guard's records, made when there is something to keep, or at once with --out."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from ttf.errors import ConfigError, StorageError, no_temporary_folder, storage_error
from ttf.incidents.death import Death, Finding
from ttf.incidents.writing import write_incident
from ttf.rundir import durable
from ttf.rundir.confined import append_inside, refuse_foreign
from ttf.rundir.new_folder import refuse_taken
from ttf.rundir.removing import remove_if_possible
from ttf.text.numbers import moment
from ttf.text.secrets import Secrets
from ttf.tools.guard.stacks import Stacks

_AREA: Final = "guard"
_TEMP: Final = "ttf-guard-"
_IN_MEMORY: Final = (Path("/dev/shm"), Path(f"/run/user/{os.geteuid()}"))
_RUNS: Final = Path("runs")
_FILES: Final = ("environment.json", "memory.jsonl", "stderr.txt", "summary.json")


class GuardFolder:
    """`path` is set once something is kept; before that, files are in a temporary folder.

    A full disk does not disturb the command; the guard reports it once.
    """

    def __init__(
        self, out: Path | None, say: Callable[[str], None], command: Sequence[str] = ()
    ) -> None:
        """Raises ConfigError, StorageError."""
        self._say = say
        self._secrets = Secrets(command=command)
        self._said = False
        self.path: Path | None = None
        try:
            temp = _temporary()
            _sweep(temp)
            self.temp = Path(tempfile.mkdtemp(prefix=f"{_TEMP}{os.getpid()}-", dir=temp))
            for made in ("stacks", "site"):
                (self.temp / made).mkdir()
            self.stacks = Stacks(self.temp / "stacks", self.temp / "site")
        except OSError as error:
            told = no_temporary_folder(error)
            raise told or storage_error(error, "the folder for temporary files") from error
        if out is not None:
            try:
                self.path = self._made(out)
            except BaseException:
                self.close()
                raise

    @property
    def memory(self) -> Path:
        return (self.path or self.temp) / "memory.jsonl"

    def keep(self) -> Path:
        """The folder; made at the first call."""
        from ttf.rundir.new_folder import make_next

        if self.path is None:
            try:
                self.path = make_next(_RUNS, "guard")
            except OSError as error:
                self.path = self.temp
                self._not_kept(
                    f"could not create {_RUNS} ({error.strerror}); the files are in {self.temp}"
                )
            else:
                with contextlib.suppress(FileNotFoundError):
                    shutil.move(self.temp / "memory.jsonl", self.path / "memory.jsonl")
        return self.path

    def incident(self, death: Death, finding: Finding, stacks: Mapping[int, str]) -> str:
        """Writes an incident and returns its number, '' if the disk is full."""
        folder = self.keep() / "incidents"
        try:
            number = write_incident(
                folder,
                death,
                finding,
                applied=None,
                lost_steps=None,
                checkpoint_step=None,
                secrets=self._secrets,
            )
        except StorageError as error:
            self._not_kept(str(error))
            return str(error.details.get("incident", ""))
        for pid, text in stacks.items():
            if text != death.faulthandler:
                data = self._secrets.text(text).encode()
                self._write(folder / number / f"stacks-{pid}.txt", data)
        return number

    def stderr(self, data: bytes, pid: int) -> None:
        """Adds the standard error of one start of the command."""
        head = f"--- process {pid}, until {moment(time.time())}\n".encode()
        tail = b"" if data.endswith(b"\n") else b"\n"
        try:
            folder = self.keep()
            with append_inside(folder / "stderr.txt", folder) as file:
                file.write(head + self._secrets.bytes(data) + tail)
        except OSError as error:
            self._not_kept(f"could not write stderr.txt ({error.strerror})")

    def document(self, name: str, content: Mapping[str, Any]) -> None:
        data = durable.json_bytes(self._secrets.value(dict(content)))
        self._write(self.keep() / name, data)

    def _write(self, path: Path, data: bytes) -> None:
        try:
            durable.write_atomically(path, data, _AREA)
        except StorageError as error:
            self._not_kept(str(error))

    def _not_kept(self, why: str) -> None:
        if not self._said:
            self._said = True
            self._say(f"some files could not be saved: {why}")

    def _made(self, out: Path) -> Path:
        if (out / "run.toml").exists():
            raise ConfigError(
                f"{out} is the folder of a ttf run.", hint="Choose another --out for ttf guard."
            )
        if not (out / "memory.jsonl").exists():  # a guard makes it first
            refuse_taken(out, _FILES, "record of ttf guard")
        try:
            out.mkdir(parents=True, exist_ok=True)
            refuse_foreign(out, _FILES, ["incidents"])
            append_inside(out / "memory.jsonl", out).close()
        except OSError as error:
            raise storage_error(error, str(out)) from error
        return out

    def close(self) -> None:
        """Removes the temporary files."""
        if self.path == self.temp:
            for made in ("stacks", "site"):
                remove_if_possible(self.temp / made, self.temp)
        else:
            remove_if_possible(self.temp, self.temp.parent)


def _temporary() -> Path:
    """A folder for temporary files: in memory if no other one takes a file, as on a full disk."""
    try:
        return Path(tempfile.gettempdir())
    except FileNotFoundError:
        for folder in _IN_MEMORY:
            if os.access(folder, os.W_OK | os.X_OK):
                return folder
        raise


def _sweep(temp: Path) -> None:
    # Temporary folders of guards that were killed.
    for path in temp.glob(f"{_TEMP}*-*"):
        digits = path.name.removeprefix(_TEMP).partition("-")[0]
        kept = (path / "incidents").exists()
        if digits.isdecimal() and not kept and not _alive(int(digits)) and _is_ours(path):
            remove_if_possible(path, temp)


def _is_ours(path: Path) -> bool:
    # Anybody may make a folder of that name there.
    with contextlib.suppress(OSError):
        found = os.lstat(path)
        return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()
    return False


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
