"""The newest checkpoint is damaged, one file of it at a time, in every way: the one before is taken."""

from __future__ import annotations

import itertools
import os
import random
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Final

from chaos.campaign import Case, Fault
from chaos.running import Place, Running, kill_and_wait, wait_until
from chaos.verdict import Verdict, incidents, judge_end
from chaos.world import INTERVAL

from ttf.rundir.verified_folders import newest_first, newest_step, step_of

CONFIGURATION: Final = "trainable-faiss"
"""Its checkpoints have every kind of file."""
_AT_STEP: Final = 118


def _cut(length: Callable[[int], int]) -> Callable[[Path], None]:
    return lambda path: os.truncate(path, length(path.stat().st_size))


def _flip(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 2)
        byte = file.read(1)[0]
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte ^ 1]))


DAMAGES: Final[dict[str, Callable[[Path], None]]] = {
    "cut to 0": _cut(lambda _: 0),
    "cut to 1 byte": _cut(lambda _: 1),
    "cut in half": _cut(lambda size: size // 2),
    "short of a byte": _cut(lambda size: size - 1),
    "a bit flipped": _flip,
    "deleted": Path.unlink,
}


def run(case: Case) -> Verdict:
    verdict, place = Verdict(), case.place()
    reference = case.world.reference(CONFIGURATION)
    begun = case.world.once("begun run", lambda: _begun(case))
    shutil.copytree(begun, place.run)
    newest = newest_first(place.run / "checkpoints")[0]
    every = list(itertools.product(_files(newest), DAMAGES))
    random.Random(case.world.seed).shuffle(every)
    file, how = every[case.number % len(every)]
    DAMAGES[how](file)
    left = newest_step(place.run / "checkpoints")
    with Running(place, ["resume", str(place.run)]) as running:
        code = running.ended()
    verdict.deaths = 1
    verdict.phases[file.name] += 1
    verdict.redone.append(step_of(newest) - left)
    verdict.bounds.append(INTERVAL)
    verdict.require(0 < step_of(newest) - left <= INTERVAL, f"newest {newest}, intact {left}")
    judge_end(verdict, place, code, reference)
    verdict.incidents_right = newest.name in place.said() and not incidents(place)
    verdict.require(verdict.incidents_right, f"{newest.name} {file.name} {how}: not reported")
    return verdict


def _files(checkpoint: Path) -> list[Path]:
    return sorted(path for path in checkpoint.rglob("*") if path.is_file())


def _begun(case: Case) -> Path:
    """A run whose supervisor was killed between two checkpoints, late."""
    place = Place(root=case.world.folder / "begun")
    words = case.world.words(CONFIGURATION, place.run)
    with Running(place, words) as running:
        running.when(lambda f: f.step >= _AT_STEP and f.saving_since_s is None)
        kill_and_wait(running.process.pid, signal.SIGKILL)
        if not wait_until(lambda: not place.living(), 10.0):
            raise TimeoutError("the children stayed")
    for lock in (".lock", ".writer", ".owner"):
        (place.run / lock).unlink(missing_ok=True)
    return place.run


FAULT: Final = Fault(
    name="damage",
    title="each file of the newest checkpoint cut, flipped, deleted in turn, ttf resume",
    runs=15,
    quick=4,
    run=run,
)
