"""Checks whether input files of a run changed, and how.

A fingerprint covers headers and the container's own checksums, so it does not see bytes changed in
place. Therefore a resumed run that finds a newer file reads the whole file once and verifies its
checksums; if the format has none, the run is no longer exact.
"""

from __future__ import annotations

import hashlib
import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from ttf.errors import DataChanged
from ttf.incidents.death import FileChange
from ttf.rundir.confined import open_named
from ttf.rundir.documents import InputState
from ttf.text.numbers import moment

if TYPE_CHECKING:
    from ttf.contracts import Store

_SAMPLES: Final = 16
_SAMPLE_BYTES: Final = 4096
_MOST_FILES: Final = 10_000  # of a folder of chunks, each time a process starts
# Where a run begins and is resumed: a minute on a slow network file system.
_MOST_COMPARED: Final = 100_000


@dataclass(frozen=True, kw_only=True)
class Identity:
    device: int
    inode: int
    size: int
    mtime_ns: int
    # Nobody can set it back. It alone says little: links and permissions change it, too.
    ctime_ns: int = field(compare=False)
    fingerprint: str = ""  # of the size and a sample of the content; empty for files in a folder

    @classmethod
    def of(cls, path: Path, *, sampled: bool) -> Self:
        stat = path.stat()
        return cls(
            device=stat.st_dev,
            inode=stat.st_ino,
            size=stat.st_size,
            mtime_ns=stat.st_mtime_ns,
            ctime_ns=stat.st_ctime_ns,
            fingerprint=_fingerprint(path, stat.st_size) if sampled else "",
        )

    def __str__(self) -> str:
        written = moment(self.mtime_ns / 1e9)
        mark = f", fingerprint {self.fingerprint}" if self.fingerprint else ""
        return f"{self.size:,} bytes{mark}, written {written}"


@dataclass(frozen=True, kw_only=True)
class InputFile:
    """The state of a file, or of a folder of files (Zarr group), at the call of `look`."""

    path: Path
    files: Mapping[str, Identity]  # by name below `path`; a plain file has the name ''
    # A file of a foreign program: only a change of the mapped file itself counts, not a new file
    # under the same name and not a deleted file.
    strangers: bool = False
    # The program writes this file itself: changed content means nothing, a shorter file does.
    written: bool = False

    @classmethod
    def look(cls, path: Path | str) -> Self:
        """Reads at most 64 kB. Raises OSError."""
        path = Path(path)
        return cls(path=path, files=dict(_look(path)))

    @classmethod
    def mapped(cls, path: Path | str, *, written: bool) -> Self:
        """A file that a foreign process has mapped. Reads no content. Raises OSError."""
        path = Path(path)
        identity = Identity.of(path, sampled=False)
        return cls(path=path, files={"": identity}, strangers=True, written=written)

    def change(self) -> FileChange | None:
        """Returns the change that explains most (a truncated file first), or None."""
        if self.strangers:
            return self._change_in_place()
        now = self._now()
        changes = (
            _change(self.path / name if name else self.path, was, now.get(name))
            for name, was in self.files.items()
            if now.get(name) != was
        )
        return min(changes, key=lambda change: not change.cut, default=None)

    def _change_in_place(self) -> FileChange | None:
        was = self.files[""]
        try:
            now = Identity.of(self.path, sampled=False)
        except OSError:
            return None
        if now == was or (now.device, now.inode) != (was.device, was.inode):
            return None
        if self.written and now.size >= was.size:
            return None
        return _change(self.path, was, now)

    def _now(self) -> dict[str, Identity]:
        if self.files.keys() == {""}:
            return dict(_look(self.path)) if self.path.is_file() else {}
        found = {}
        for name in self.files:
            try:
                found[name] = Identity.of(self.path / name, sampled=False)
            except OSError:
                continue
        return found


def look_at(paths: Iterable[Path | str]) -> tuple[InputFile, ...]:
    """Returns the states of the inputs that are local and exist."""
    # A pipe or a device is no data: the trainer says so.
    there = (path for path in map(Path, paths) if path.is_file() or path.is_dir())
    return tuple(map(InputFile.look, there))


def changes(inputs: Iterable[InputFile]) -> tuple[FileChange, ...]:
    found = (file.change() for file in inputs)
    return tuple(change for change in found if change is not None)


def _look(path: Path, most: int = _MOST_FILES) -> Iterator[tuple[str, Identity]]:
    if not path.is_dir():
        yield "", Identity.of(path, sampled=True)
        return
    for file in itertools.islice(files_below(path), most):
        yield str(file.relative_to(path)), Identity.of(file, sampled=False)


def files_below(folder: Path) -> Iterator[Path]:
    """All files of a folder and its folders, in the order of their names."""
    for base, folders, names in os.walk(folder):
        folders.sort()
        yield from (Path(base, name) for name in sorted(names))


def _change(path: Path, was: Identity, now: Identity | None) -> FileChange:
    if now is None:
        return FileChange(path=str(path), was=str(was), now="gone")
    same = (was.device, was.inode) == (now.device, now.inode)
    return FileChange(
        path=str(path),
        was=str(was),
        now=str(now) if same else f"another file: {now}",
        cut=same and now.size < was.size,
    )


def _fingerprint(path: Path, size: int) -> str:
    # Evenly spread pages with the first and the last: cheap, and enough to tell a rewritten file
    # from a touched file.
    digest = hashlib.blake2b(size.to_bytes(8, "little"), digest_size=8)
    last = max(0, size - _SAMPLE_BYTES)
    with open_named(path) as file:
        for place in range(_SAMPLES):
            digest.update(os.pread(file.fileno(), _SAMPLE_BYTES, last * place // (_SAMPLES - 1)))
    return digest.hexdigest()


# --- a run that goes on -------------------------------------------------------------------------


def noted(stores: Iterable[Store]) -> dict[str, InputState]:
    """For manifest.json: returns the state of each container by path or address, if it is local or
    has a hash of its content. Reads 64 kB of each file."""
    found = ((store.uri, _state_of(store, _MOST_COMPARED)) for store in stores)
    return {uri: state for uri, state in found if state is not None}


def refuse_changed(
    before: Mapping[str, InputState], stores: Iterable[Store], say: Callable[[str], None]
) -> list[str]:
    """Raises DataChanged if a container changed; containers missing in `before` pass. Returns what
    cannot be compared: the files that were written to and whose format has no checksums."""
    unknown = []
    for store in stores:
        was = before.get(store.uri)
        now = None if was is None else _state_of(store, _most_files(was))
        if was is None or now is None:
            continue
        if (was["bytes"], was["fingerprint"]) != (now["bytes"], now["fingerprint"]):
            raise _changed(store, was, now, "")
        checked = getattr(store, "has_checksums", False) is True
        if _untouched(was, now):
            if now.get("cut"):
                unknown.append(
                    f"{store.uri} has more files than ttf looks at, so it cannot tell whether the "
                    "others changed"
                )
            continue
        if not checked:
            unknown.append(
                f"{store.uri} was written to or replaced since the run began{_perhaps(was, now)}, and "
                "its format has no checksums, so ttf cannot compare its content with that at the start"
            )
            continue
        say(
            f"{store.uri} was written to since the run began{_perhaps(was, now)}. ttf reads the whole "
            "file once to check that its content is the same."
        )
        for problem in store.verify():
            raise _changed(store, was, now, f" {problem}")
    return unknown


def _untouched(was: InputState, now: InputState) -> bool:
    # Manifests of earlier versions have no `times`, and no `ctimes`. Without checksums nobody can
    # tell a new permission from new content, so the word `exact` is given up for both.
    return _same_times(was, now) and was.get("ctimes") in (None, now.get("ctimes"))


def _same_times(was: InputState, now: InputState) -> bool:
    return was["mtime_ns"] == now["mtime_ns"] and was.get("times") in (None, now.get("times"))


def _perhaps(was: InputState, now: InputState) -> str:
    told = " (its time was set back, or only its permissions or links are others)"
    return told if _same_times(was, now) else ""


def change_since(before: InputState, uri: str) -> str:
    """How the content of a local container differs from that at the start of a run; empty if it does
    not. Reads 64 kB."""
    path = Path(uri)
    if not path.exists():
        return ""
    now = _state(path, _most_files(before))
    if (before["bytes"], before["fingerprint"]) == (now["bytes"], now["fingerprint"]):
        return ""
    return f"before: {_describe(before)}; now: {_describe(now)}"


def _state(path: Path, most: int) -> InputState:
    files = dict(_look(path, most + 1))
    cut = len(files) > most
    if cut:
        files.popitem()
    names, times, ctimes = (hashlib.blake2b(digest_size=8) for _ in range(3))
    for name, file in sorted(files.items()):
        names.update(f"{name}:{file.size}\n".encode())
        times.update(f"{name}:{file.inode}:{file.mtime_ns}\n".encode())
        ctimes.update(f"{name}:{file.ctime_ns}\n".encode())
    own = files.get("")
    return {
        "bytes": sum(file.size for file in files.values()),
        "mtime_ns": max((file.mtime_ns for file in files.values()), default=0),
        "fingerprint": names.hexdigest() if own is None else own.fingerprint,
        "times": times.hexdigest(),
        "ctimes": ctimes.hexdigest(),
        "cut": cut,
    }


def _state_of(store: Store, most: int) -> InputState | None:
    """None: elsewhere, and without a hash of its content."""
    content = str(getattr(store, "content_sha256", ""))
    if content:
        size = int(getattr(store, "content_bytes", 0))
        return {"bytes": size, "mtime_ns": 0, "fingerprint": "", "times": content, "cut": False}
    path = Path(store.uri)
    return _state(path, most) if path.exists() else None


def _most_files(before: InputState) -> int:
    """As many files as `before`: earlier versions, which noted no `times`, looked at fewer."""
    return _MOST_COMPARED if "times" in before else _MOST_FILES


def _changed(store: Store, was: InputState, now: InputState, problem: str) -> DataChanged:
    return DataChanged(
        f"{store.uri} has changed since the run began (before: {_describe(was)}; now: "
        f"{_describe(now)}).{problem}",
        hint="Restore the original file, or start a new run with ttf train.",
    )


def _describe(seen: InputState) -> str:
    if not seen["mtime_ns"]:  # elsewhere
        return f"{seen['bytes']:,} bytes, content {seen.get('times', '')[:16]}"
    written = moment(seen["mtime_ns"] / 1e9)
    return f"{seen['bytes']:,} bytes, fingerprint {seen['fingerprint']}, written {written}"
