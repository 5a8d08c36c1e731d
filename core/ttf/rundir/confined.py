"""The one way to what lies inside a folder that may come from somebody else: a run, a study, a
store, the cache.

The folder itself is named by the user and may be a link. Inside it no link is followed, only
regular files are opened, and none is read without a limit. So a folder that was received can
neither name a file elsewhere nor stop the program with a pipe or a device. JSON has limits too.

`inside` is always that folder, and `path` a path below it. Each function raises EntryRefused, and
OSError as `open` does.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator
from io import BufferedRandom, BufferedReader, FileIO
from pathlib import Path
from typing import Any, Final

from ttf.errors import ArtifactDamaged, EntryRefused
from ttf.text.limited_json import MOST_DEPTH, loaded_json, parsed_json

_STEP: Final = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Without O_NONBLOCK, open waits for ever for the other end of a pipe.
_READ: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
_WRITE: Final = os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_PLAIN_NAME: Final = re.compile(r"[\w+=@][\w+=@.-]*")
_LONGEST_NAME: Final = 240  # bytes; the usual limit of file systems is 255
MOST_CONFIG_BYTES: Final = 4 << 20  # of a run.toml
# A summary with 60,000 incidents. Once parsed, a document takes up to 30 times as much memory.
MOST_BYTES: Final = 8 << 20
_LONGEST_LINE: Final = 1 << 20
_MOST_WITHOUT_END: Final = 8  # Pieces of that length; the file is then no file of lines.
_DEEPEST: Final = 32  # Folders below one of ours; our own need three.
_NO_LINKS: Final = (
    "ttf does not follow symbolic links inside the folder of a run, study, store or cache. If the "
    "link is your own, replace it by the file or folder itself, for example with cp -rL."
)
_KINDS: Final = (
    (stat.S_ISLNK, "a symbolic link"),
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def is_plain_name(text: object) -> bool:
    """Whether a name from a document may be the name of a file or folder: no separator, no '..',
    not hidden."""
    plain = isinstance(text, str) and _PLAIN_NAME.fullmatch(text) is not None
    return plain and len(os.fsencode(str(text))) <= _LONGEST_NAME


# --- reading ---------------------------------------------------------------------------------------


def open_inside(path: Path, inside: Path) -> BufferedReader:
    """Opens a regular file below `inside` for reading."""
    with folder_of(path, inside) as (fd, name):
        return _open_regular(name, path, fd)


def open_named(path: Path) -> BufferedReader:
    """Opens a regular file that the user named, or a link to one."""
    return _open_regular(path, path, None)


def read_inside(path: Path, inside: Path, most: int) -> bytes:
    """All of a file of at most `most` bytes. Raises ArtifactDamaged if it is larger."""
    with open_inside(path, inside) as file:
        return _whole(file, path, most)


def read_named(path: Path, most: int) -> bytes:
    """As `read_inside`, for a file that the user named."""
    with open_named(path) as file:
        return _whole(file, path, most)


def raw_lines(path: Path, inside: Path) -> Iterator[bytes]:
    """Raises OSError and EntryRefused. A damaged file without line ends comes in pieces (no JSON),
    so that it does not fill the memory, and only its first pieces: a file can claim any length."""
    without_end = 0
    with open_inside(path, inside) as file:
        while without_end < _MOST_WITHOUT_END and (line := file.readline(_LONGEST_LINE)):
            without_end += len(line) == _LONGEST_LINE and not line.endswith(b"\n")
            yield line


def end_of(path: Path, inside: Path, most: int) -> tuple[bytes, int]:
    """The last bytes of a file, at most `most`, and how many are before them."""
    with open_inside(path, inside) as file:
        start = max(0, file.seek(0, os.SEEK_END) - most)
        file.seek(start)
        return file.read(most), start


def sha256_file(path: Path, inside: Path, *, from_disk: bool = False) -> str:
    """Of a file below `inside`. Raises OSError and EntryRefused.

    `from_disk` asks the kernel to drop its cached copy first, so that it reads what would be read
    after a crash. Only for fsynced files; a hint, if the system supports it.
    """
    with open_inside(path, inside) as file:
        if from_disk and hasattr(os, "posix_fadvise"):
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        return hashlib.file_digest(file, "sha256").hexdigest()


def names_in(folder: Path, inside: Path) -> list[str]:
    """The names in a folder below `inside`, or in `inside` itself."""
    if folder == inside:
        return sorted(entry.name for entry in inside.iterdir())
    with folder_of(folder, inside) as (parent, name):
        fd = _open_folder(name, folder, parent)
        try:
            return sorted(os.listdir(fd))  # noqa: PTH208 - of a descriptor
        finally:
            os.close(fd)


def _open_regular(name: str | Path, path: Path, parent: int | None) -> BufferedReader:
    # Looked at before it is opened: opening a device can already do something.
    follow = parent is None
    _refuse_unless_file(os.stat(name, dir_fd=parent, follow_symlinks=follow), path)
    fd = os.open(name, _READ if follow else _READ | os.O_NOFOLLOW, dir_fd=parent)
    try:
        _refuse_unless_file(os.fstat(fd), path)
        return os.fdopen(fd, "rb")
    except BaseException:
        os.close(fd)
        raise


def _whole(file: BufferedReader, path: Path, most: int) -> bytes:
    data = file.read(most + 1)
    if len(data) > most:
        raise ArtifactDamaged(
            f"{path} has more than {most:,} bytes, which is too large for this file of ttf.",
            hint="The file is damaged, or ttf did not write it.",
        )
    return data


# --- JSON ------------------------------------------------------------------------------------------


def parsed_line(raw: bytes) -> dict[str, Any] | None:
    """The object of a line; None if it is none: its writer died, or is still writing it. Its
    numbers are not checked: `ttf.rundir.typed_json` leaves out what does not fit."""
    try:
        # Each level has a bracket of its own: a line with few of them is not deep.
        flat = raw.count(b"[") + raw.count(b"{") <= MOST_DEPTH
        value = loaded_json(raw) if flat else parsed_json(raw, numbers=False)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def read_json(path: Path, inside: Path, most: int = MOST_BYTES) -> Any:
    """A document below the folder `inside`. Raises ArtifactDamaged, EntryRefused and OSError."""
    return _document(read_inside(path, inside, most), path)


def found_json(path: Path, inside: Path, say: Callable[[str], None] = lambda _: None) -> Any:
    """The value of a document below `inside`, its numbers not checked; None, with a message to `say`,
    if it cannot be read. For `ttf.rundir.typed_json`, which leaves out what does not fit."""
    try:
        return parsed_json(read_inside(path, inside, MOST_BYTES), numbers=False)
    except FileNotFoundError:
        pass
    except (OSError, ValueError, ArtifactDamaged) as error:
        say(f"{path.name} could not be read: {error}")
    return None


def read_named_json(path: Path, most: int = MOST_BYTES) -> Any:
    """A document that the user named."""
    return _document(read_named(path, most), path)


def _document(data: bytes, path: Path) -> Any:
    try:
        return parsed_json(data)
    except ValueError as error:
        raise ArtifactDamaged(f"{path} is damaged: {error}.") from error


# --- writing ---------------------------------------------------------------------------------------


def append_inside(path: Path, inside: Path) -> FileIO:
    """Opens a regular file to write at its end, unbuffered; makes it if there is none."""
    return os.fdopen(_open_to_write(path, inside, os.O_APPEND), "ab", buffering=0)


def write_inside(path: Path, inside: Path, *, anew: bool = False) -> BufferedRandom:
    """Opens a regular file to be changed in place; makes it if there is none. `anew` empties it.
    For what a crash may tear; the rest is written by `ttf.rundir.durable`."""
    file = os.fdopen(_open_to_write(path, inside, 0), "r+b")
    if anew:
        file.truncate()
    return file


def _open_to_write(path: Path, inside: Path, flags: int) -> int:
    with folder_of(path, inside) as (parent, name):
        with contextlib.suppress(FileNotFoundError):
            _refuse_unless_file(os.stat(name, dir_fd=parent, follow_symlinks=False), path)
        fd = os.open(name, os.O_RDWR | _WRITE | flags, 0o666, dir_fd=parent)
    try:
        _refuse_unless_file(os.fstat(fd), path)
    except BaseException:
        os.close(fd)
        raise
    return fd


# --- folders ---------------------------------------------------------------------------------------


@contextlib.contextmanager
def folder_of(path: Path, inside: Path) -> Iterator[tuple[int, str]]:
    """A descriptor of the folder that holds `path`, for calls with `dir_fd`, and the name there."""
    *folders, name = _parts(path, inside)
    at, fd = inside, os.open(inside, _STEP)
    try:
        for folder in folders:
            at /= folder
            inner = _open_folder(folder, at, fd, _STEP | os.O_NOFOLLOW)
            os.close(fd)
            fd = inner
        yield fd, name
    finally:
        os.close(fd)


def open_folder(name: str, path: Path, parent: int) -> int:
    """A descriptor of a folder in the folder `parent`; never of what a link points to."""
    return _open_folder(name, path, parent)


def _open_folder(name: str, path: Path, parent: int, flags: int = _FOLDER) -> int:
    try:
        return os.open(name, flags, dir_fd=parent)
    except OSError as error:
        if error.errno not in (errno.ENOTDIR, errno.ELOOP):  # a link: the systems differ
            raise
        raise _refused(os.stat(name, dir_fd=parent, follow_symlinks=False), path) from None


def refuse_foreign(inside: Path, files: Iterable[str], folders: Iterable[str] = ()) -> None:
    """Raises EntryRefused if one of these entries is not what its name says, or if there is a link,
    a pipe or a device in one of the folders. Before anything is written there: paths inside are
    then what they seem."""
    for name in files:
        with contextlib.suppress(FileNotFoundError):
            _refuse_unless_file(os.lstat(inside / name), inside / name)
    whole = list(folders)
    refuse_foreign_entries(inside, whole)
    for name in whole:
        with contextlib.suppress(FileNotFoundError):
            _refuse_foreign_below(inside / name, _DEEPEST)


def refuse_foreign_entries(inside: Path, folders: Iterable[str]) -> None:
    """Raises EntryRefused if one of these entries is there and no folder; does not look into it."""
    for name in folders:
        with contextlib.suppress(FileNotFoundError):
            found = os.lstat(inside / name)
            if not stat.S_ISDIR(found.st_mode):
                raise _refused(found, inside / name)


def _refuse_foreign_below(folder: Path, deepest: int) -> None:
    if not deepest:
        raise EntryRefused(f"{folder} has more levels than any folder of ttf.")
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                _refuse_foreign_below(folder / entry.name, deepest - 1)
            elif not entry.is_file(follow_symlinks=False):
                raise _refused(entry.stat(follow_symlinks=False), folder / entry.name)


def _parts(path: Path, inside: Path) -> tuple[str, ...]:
    try:
        parts = path.relative_to(inside).parts
    except ValueError:
        parts = ()
    if not parts or ".." in parts or any("\0" in part for part in parts):
        raise EntryRefused(
            f"{str(path)!r} is not inside {inside}.",
            hint=(
                "A file in that folder contains this path. The folder is damaged, or ttf did "
                "not write it."
            ),
        )
    return parts


def _refuse_unless_file(found: os.stat_result, path: Path) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise _refused(found, path)


def _refused(found: os.stat_result, path: Path) -> EntryRefused:
    kind = next((kind for is_kind, kind in _KINDS if is_kind(found.st_mode)), "a file")
    expected = "a folder" if kind == "a file" else "a regular file"
    link = stat.S_ISLNK(found.st_mode)
    return EntryRefused(f"{path} is {kind}, not {expected}.", hint=_NO_LINKS if link else "")
