"""Another node of a study: it runs the blocks that node 0 gives it, and tells each repeat at once."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from filelock import FileLock

from ttf.errors import ConfigError, FolderInUse
from ttf.rundir.confined import is_plain_name
from ttf.text.terminal import say
from ttf.tools.ab.hosts.runner import CellRunner
from ttf.tools.ab.hosts.wire import cells_from, finished_message
from ttf.tools.ab.progress import ending
from ttf.tools.ab.sample import Sample
from ttf.tools.ab.setup import ABSetup
from ttf.tools.ab.study import ABLimits
from ttf.tools.studies.one_run import FinishedRun
from ttf.tools.studies.study import claim, release
from ttf.tools.tickets.own import Own


@dataclass
class BlockHand:
    """What `ttf.tools.tickets.follower` needs. A repeat begins only when those that ended before are
    durable on node 0."""

    setup: ABSetup
    limits: ABLimits
    own: Own
    out: Path | None
    name: str = ""
    repeats: int = 0  # that ended here
    _runner: CellRunner | None = None
    _lock: FileLock | None = None
    _attempts: dict[int, int] = field(default_factory=dict)  # of the blocks that it holds
    _ended: deque[tuple[int, FinishedRun[Sample]]] = field(default_factory=deque)
    _said: set[int] = field(default_factory=set)
    _number: int = 0
    _asked: bool = False

    @property
    def folder(self) -> Path | None:
        return None if self._runner is None else self._runner.folder

    def hello(self) -> Mapping[str, Any]:
        holds = [[block, attempt] for block, attempt in self._attempts.items()]
        return {**self.own.message, "name": self.name, "holds": holds}

    def welcomed(self, welcome: Mapping[str, Any]) -> None:
        self.name = str(welcome["welcome"])
        self._said.clear()
        self._asked = False
        if self._runner is None:
            folder, self._lock = _own_folder(self.out, str(welcome.get("study")), self.name)
            say(f"Repeats of this host are in {folder}.")
            self._runner = CellRunner(
                setup=self.setup,
                folder=folder,
                parallel=self.limits.parallel,
                keep_runs=self.limits.keep_runs,
            )

    def heard(self, message: Mapping[str, Any]) -> None:
        runner = self._runner
        assert runner is not None
        if "ticket" in message:
            self._asked = False
            try:
                cells = cells_from(message["cells"], self.setup)
            except (LookupError, TypeError, ValueError) as error:
                raise ConfigError(
                    f"Node 0 gave work that this host cannot read: {error}.",
                    hint="Is it the same version of ttf, and were the same files given?",
                ) from error
            self._attempts[int(message["ticket"])] = int(message["attempt"])
            runner.add(cells)
        elif "kept" in message:
            self._ended = deque(pair for pair in self._ended if pair[0] != message["kept"])
        elif "drop" in message:
            self._drop(message["drop"])

    def _drop(self, blocks: list[int]) -> None:
        """Another host has them: what was done of them here is not used."""
        assert self._runner is not None
        if blocks:
            say(f"Block {', '.join(map(str, blocks))} was given to another host meanwhile.")
        self._runner.end(blocks)
        for block in blocks:
            self._attempts.pop(block, None)
        self._ended = deque(pair for pair in self._ended if pair[1].run.block not in blocks)

    def look(self) -> None:
        if self._runner is None:
            return
        for finished in self._runner.look(begin=not self._ended):
            self._number += 1
            self._ended.append((self._number, finished))
            self.repeats += 1
            sample = finished.run
            say(f"repeat {sample.block} of {sample.arm}: {ending(sample)}")
        if self._runner.idle and not self._ended:
            self._attempts.clear()

    def to_say(self) -> Iterator[Mapping[str, Any]]:
        for number, finished in self._ended:
            if number not in self._said:
                self._said.add(number)
                yield {"number": number, "result": finished_message(finished)}
        if self._runner is not None and self._runner.idle and not self._ended and not self._asked:
            self._asked = True
            yield {"want": max(1, self.limits.parallel // len(self.setup.arms))}

    def close(self) -> None:
        if self._runner is not None:
            self._runner.end()
        if self._lock is not None and self.folder is not None:
            release(self.folder, self._lock)


def _own_folder(out: Path | None, study: str, host: str) -> tuple[Path, FileLock]:
    """Beside where the study would be on this host: on a disk that all share, it is not the study's."""
    base = out or Path("runs") / (study if is_plain_name(study) else "ab")
    for number in range(1, 100):
        more = "" if number == 1 else f"-{number}"
        folder = base.with_name(f"{base.name}-{host}{more}")
        with contextlib.suppress(FolderInUse):
            return folder, claim(folder)
    raise FolderInUse(
        f"Other processes use {base}-{host} and 98 more like it.", hint="Choose another --out."
    )
