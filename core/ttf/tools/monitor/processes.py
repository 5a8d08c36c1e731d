"""The processes of a tree: three kinds of memory, processor time, threads, state."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ttf.text.terminal import one_line
from ttf.tools.monitor.system import Raw, read

TRAINER: Final = "trainer"
MINER: Final = "miner worker"
KEEPER: Final = "keeper"
SUPERVISOR: Final = "supervisor"
_MODULES: Final = {"ttf.training.launch": TRAINER, "ttf.mining.worker_main": MINER}
_HELPERS: Final = {
    "resource_tracker": "resource tracker",
    "forkserver": "fork server",
    "spawn_main": "spawned worker",
    "--multiprocessing-fork": "spawned worker",
}
_LONGEST: Final = 200


@dataclass(frozen=True, kw_only=True)
class Process:
    """A process as shown; memory in bytes, None if it cannot be read."""

    pid: int
    role: str
    command: str
    anon: int | None
    shared: int | None
    file: int | None
    cpu_percent: float | None  # of one core, since the last call; None at the first
    threads: int
    state: str


class ProcessTable:
    def __init__(self, root_role: str = "") -> None:
        self.root_role = root_role  # the name of the first process; empty: from its command line
        self._before: Mapping[tuple[int, float], float] = {}
        self._looked_at = 0.0

    def look(self, pid: int) -> tuple[Process, ...]:
        """`pid` first, then its descendants; () if it is gone."""
        found, now = read(pid), time.monotonic()
        passed = now - self._looked_at
        words = {raw.pid: raw.words for raw in found}
        table = tuple(
            Process(
                pid=raw.pid,
                role=self._role(raw, pid, words),
                command=_printable(" ".join(raw.words)),
                anon=raw.anon,
                shared=raw.shared,
                file=raw.file,
                cpu_percent=self._cpu_percent(raw, passed),
                threads=raw.threads,
                state=raw.state,
            )
            for raw in found
        )
        self._before = {(raw.pid, raw.started): raw.cpu_s for raw in found}
        self._looked_at = now
        return table

    def _cpu_percent(self, raw: Raw, passed: float) -> float | None:
        before = self._before.get((raw.pid, raw.started))
        if before is None or passed <= 0:
            return None
        return max(0.0, 100 * (raw.cpu_s - before) / passed)

    def _role(self, raw: Raw, root: int, words: Mapping[int, Sequence[str]]) -> str:
        if raw.pid == root and self.root_role:
            return self.root_role
        return role_of(raw, words.get(raw.parent, ()))


def role_of(raw: Raw, parent_words: Sequence[str]) -> str:
    """The role of a process, from its command line."""
    for module, role in _MODULES.items():
        if module in raw.words:
            leads = raw.session in (0, raw.pid)  # a keeper is a fork and leads no session
            return role if leads else KEEPER
    for mark, role in _HELPERS.items():
        if any(mark in word for word in raw.words):
            return role
    name = _program_name(raw.words)
    forked = raw.words == tuple(parent_words) and _is_python(raw.words)
    return "forked worker" if forked else name


def _is_python(words: Sequence[str]) -> bool:
    return bool(words) and words[0].rpartition("/")[2].startswith("python")


def _program_name(words: Sequence[str]) -> str:
    """'ttf train', 'train.py', 'rsync'."""
    if not words:
        return "?"
    names = [word.rpartition("/")[2] for word in words]
    if not _is_python(words):
        rest = names[1:2] if names[0] == "ttf" else []
        return _printable(" ".join([names[0], *rest]))
    for number, word in enumerate(words[1:], start=1):
        if word == "-m" and number + 1 < len(words):
            rest = names[number + 2 : number + 3] if words[number + 1] == "ttf" else []
            return _printable(" ".join([words[number + 1], *rest]))
        if word == "-c":
            return "python -c"
        if not word.startswith("-"):
            rest = names[number + 1 : number + 2] if names[number] == "ttf" else []
            return _printable(" ".join([names[number], *rest]))
    return _printable(names[0])


def _printable(text: str) -> str:
    return one_line(text)[:_LONGEST]
