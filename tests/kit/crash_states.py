"""Every state of a folder that a crash may leave behind, from the operations that were done.

The model is weaker than any file system we know: what was done to a folder since its last fsync may
be on disk or not, each operation by itself and in any order (a rename within a folder stays one);
what was written to a file since its last fsync may be there sector by sector, as zeros, cut, or not
at all, whatever became of its name. What an fsync returned for is there.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ttf.rundir.durable import Operation

SECTOR: Final = 512
MODES: Final = ("lost", "all", "zeros", "sectors", "cut")
_ALL_SUBSETS_OF: Final = 5
"""Folder operations that are pending at once; of more, a sample."""
_MOST_SUBSETS: Final = 48

Entry = dict[str, int | None]
"""Names to inodes; None: the name is taken away."""


@dataclass
class _File:
    durable: bytes = b""
    now: bytearray = field(default_factory=bytearray)


@dataclass
class _Folder:
    durable: dict[str, int] = field(default_factory=dict)
    now: dict[str, int] = field(default_factory=dict)
    pending: list[Entry] = field(default_factory=list)


@dataclass(frozen=True)
class State:
    """One folder as a crash left it: paths below the root, None for a folder."""

    label: str
    done: int
    """Operations that had been done."""
    tree: dict[str, bytes | None]

    def key(self) -> tuple[tuple[str, bytes | None], ...]:
        return tuple(sorted(self.tree.items()))

    def materialise(self, root: Path) -> None:
        root.mkdir()
        for name, content in sorted(self.tree.items()):
            if content is None:
                (root / name).mkdir()
            else:
                (root / name).write_bytes(content)


class Disk:
    """What is durable and what is only in memory, after some operations."""

    def __init__(self, root: Path, before: dict[str, bytes | None]) -> None:
        """`before`: what was there, durably, as `State.tree` has it."""
        self._root = root
        self._inodes: list[_File | _Folder] = [_Folder()]
        for name, content in sorted(before.items()):
            folder = self._folder(Path(name).parent)
            inode = self._new(_Folder() if content is None else _File(content, bytearray(content)))
            folder.now[Path(name).name] = folder.durable[Path(name).name] = inode

    def do(self, operation: Operation) -> None:
        path = operation.path.relative_to(self._root)
        if operation.verb == "fsync":
            file = self._file(path)
            file.durable = bytes(file.now)
        elif operation.verb == "fsync_dir":
            folder = self._folder(path)
            folder.durable, folder.pending = dict(folder.now), []
        elif operation.verb == "write":
            file = self._file(path)
            end = operation.offset + len(operation.data)
            file.now.extend(bytes(max(0, end - len(file.now))))
            file.now[operation.offset : end] = operation.data
        else:
            self._change(self._folder(path.parent), self._entry(operation, path))

    def states(self, label: str, done: int, rng: random.Random) -> Iterator[State]:
        """All choices of what is on disk, or many of them."""
        pending = [
            (folder, number)
            for folder in self._inodes
            if isinstance(folder, _Folder)
            for number in range(len(folder.pending))
        ]
        files = [inode for inode in self._inodes if isinstance(inode, _File)]
        # Where every file is durable, all modes are one.
        modes = (*MODES, "mixed") if any(file.now != file.durable for file in files) else MODES[:1]
        for chosen in _subsets(len(pending), rng):
            applied = [pending[at] for at in chosen]
            for mode in modes:
                tree: dict[str, bytes | None] = {}
                self._lay_out(0, "", applied, mode, rng, tree)
                yield State(f"{label}, {sorted(chosen)} of {len(pending)}, {mode}", done, tree)

    def _lay_out(
        self,
        inode: int,
        folder_name: str,
        applied: Sequence[tuple[_Folder, int]],
        mode: str,
        rng: random.Random,
        tree: dict[str, bytes | None],
    ) -> None:
        folder = self._inodes[inode]
        assert isinstance(folder, _Folder)
        entries = dict(folder.durable)
        for owner, number in applied:
            if owner is folder:
                _apply(folder.pending[number], entries)
        for name, inner in sorted(entries.items()):
            found = self._inodes[inner]
            path = f"{folder_name}{name}"
            if isinstance(found, _Folder):
                tree[path] = None
                self._lay_out(inner, f"{path}/", applied, mode, rng, tree)
            else:
                own = rng.choice(MODES) if mode == "mixed" else mode
                tree[path] = _content(found, own, rng)

    def _entry(self, operation: Operation, path: Path) -> Entry:
        if operation.verb == "create":
            return {path.name: self._new(_File())}
        if operation.verb == "mkdir":
            return {path.name: self._new(_Folder())}
        if operation.verb == "rename":
            assert operation.target is not None
            target = operation.target.relative_to(self._root)
            assert target.parent == path.parent
            return {path.name: None, target.name: self._folder(path.parent).now[path.name]}
        assert operation.verb in ("unlink", "rmdir")
        return {path.name: None}

    def _change(self, folder: _Folder, entry: Entry) -> None:
        _apply(entry, folder.now)
        folder.pending.append(entry)

    def _new(self, made: _File | _Folder) -> int:
        self._inodes.append(made)
        return len(self._inodes) - 1

    def _at(self, path: Path) -> _File | _Folder:
        found: _File | _Folder = self._inodes[0]
        for name in path.parts:
            assert isinstance(found, _Folder)
            found = self._inodes[found.now[name]]
        return found

    def _folder(self, path: Path) -> _Folder:
        found = self._at(path)
        assert isinstance(found, _Folder)
        return found

    def _file(self, path: Path) -> _File:
        found = self._at(path)
        assert isinstance(found, _File)
        return found


def _apply(entry: Entry, entries: dict[str, int]) -> None:
    for name, inode in entry.items():
        if inode is None:
            entries.pop(name, None)
        else:
            entries[name] = inode


def _subsets(count: int, rng: random.Random) -> Iterator[frozenset[int]]:
    """All where they are few; else none, all, every prefix, all but one, and some at random."""
    everything = range(count)
    if count <= _ALL_SUBSETS_OF:
        for size in range(count + 1):
            yield from map(frozenset, itertools.combinations(everything, size))
        return
    seen = {frozenset(everything[:end]) for end in range(count + 1)}
    seen |= {frozenset(everything) - {one} for one in everything}
    seen |= {frozenset(at for at in everything if rng.random() < 0.5) for _ in everything}
    few = sorted(seen, key=sorted)
    yield from few if len(few) <= _MOST_SUBSETS else rng.sample(few, _MOST_SUBSETS)


def _content(file: _File, mode: str, rng: random.Random) -> bytes:
    now, durable = bytes(file.now), file.durable
    if now == durable or mode == "all":
        return now
    if mode == "lost":
        return durable
    longer = len(now) - len(durable)
    if mode == "zeros":
        return durable + bytes(max(0, longer))
    if mode == "cut":
        return now[: max(len(durable), rng.randrange(0, len(now) + 1, SECTOR))]
    old = durable + bytes(max(0, longer))
    return b"".join(
        rng.choice((now, old))[start : start + SECTOR] for start in range(0, len(now), SECTOR)
    )


def tree_of(root: Path) -> dict[str, bytes | None]:
    """What is below a folder now."""
    return {
        str(path.relative_to(root)): path.read_bytes() if path.is_file() else None
        for path in sorted(root.rglob("*"))
    }


def crash_states(
    root: Path,
    before: dict[str, bytes | None],
    operations: Sequence[Operation],
    *,
    seed: int,
    at_most: int,
) -> list[State]:
    """The distinct states of every prefix; of more than `at_most`, as many of each prefix."""
    rng = random.Random(seed)
    disk = Disk(root, before)
    prefixes: list[list[State]] = []
    seen: set[tuple[tuple[str, bytes | None], ...]] = set()
    for done, operation in enumerate((None, *operations)):
        if operation is not None:
            disk.do(operation)
        label = f"after operation {done}, {operation.name if operation else 'none'}"
        fresh = []
        for state in disk.states(label, done, rng):
            # The same state may come about earlier, when less had been promised.
            key = (*state.key(), ("", str(done).encode()))
            if key not in seen:
                seen.add(key)
                fresh.append(state)
        prefixes.append(fresh)
    share = max(1, at_most // len(prefixes))
    chosen = [
        state
        for states in prefixes
        for state in (states if len(states) <= share else rng.sample(states, share))
    ]
    # There may be more prefixes than that.
    return chosen if len(prefixes) <= at_most else rng.sample(chosen, at_most)
