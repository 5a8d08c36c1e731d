"""One repeat: a supervised `ttf train` in a process tree of its own, and what is kept of it.

study/runs/007-faiss/     block 7 of the arm faiss: incidents, run.toml, summary.json, stderr.txt
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ttf.tools.ab.read_repeat import evaluating_seconds, read_sample
from ttf.tools.ab.sample import Sample
from ttf.tools.ab.schedule import Cell
from ttf.tools.ab.setup import Setup
from ttf.tools.studies.training import Training, end_all, tidy

_LOOK_EVERY_S: Final = 0.05


@dataclass(frozen=True, kw_only=True)
class Ended:
    """`error`: of its --json, where it ended with one."""

    sample: Sample
    evaluating_s: float = 0.0
    error: Mapping[str, Any] | None = None


def words(setup: Setup, cell: Cell) -> list[str]:
    """The command of a repeat, without --out and --json: what all arms share, then the arm's own,
    then what the study needs."""
    arm = setup.arm(cell.arm)
    out = ["train", arm.toml, "--seed", str(cell.seed), "--no-remedies"]
    if setup.steps is not None:
        out += ["--steps", str(setup.steps)]
    # Equally many steps, and the weights after the last one: all arms are measured there.
    ours: dict[str, Any] = {"evaluate.patience": 0, "evaluate.keep_best": False, "gates": []}
    if arm.evaluate_every is not None:
        ours["evaluate.every"] = arm.evaluate_every
    if setup.hang_timeout_s is not None:
        ours["supervise.hang_timeout_s"] = setup.hang_timeout_s
    said = [f"{key}={json.dumps(value)}" for key, value in ours.items()]
    for text in (*setup.sets, *arm.sets, *said):
        out += ["--set", text]
    return out


def run_folder(setup: Setup, cell: Cell, folder: Path) -> Path:
    return folder / "runs" / f"{cell.block:03d}-{setup.arm(cell.arm).slug}"


class Repeat:
    """One that was started."""

    def __init__(self, setup: Setup, cell: Cell, folder: Path) -> None:
        self.cell = cell
        self.run = run_folder(setup, cell, folder).absolute()
        shutil.rmtree(self.run, ignore_errors=True)  # of a study that was killed
        self.run.parent.mkdir(exist_ok=True)
        self._time, self._clock = time.time(), time.monotonic()
        command = [*words(setup, cell), "--out", str(self.run), "--json"]
        self.training = Training(command, self.run, cwd=Path(setup.cwd))

    @property
    def over(self) -> bool:
        return self.training.process.poll() is not None

    def finish(self, *, keep: bool) -> Ended:
        """Call it once, after the end; `keep`: the whole folder."""
        code = self.training.process.wait()
        wall_s = time.monotonic() - self._clock
        with self.training:
            error = self.training.document().get("error") if code else None
        sample = read_sample(self.cell, self.run, code, error, self._time, wall_s)
        evaluating_s = evaluating_seconds(self.run)
        if not keep:
            tidy(self.run, keep=True)
        return Ended(sample=sample, evaluating_s=evaluating_s, error=error)


def carry_out(
    setup: Setup,
    cells: Sequence[Cell],
    folder: Path,
    *,
    parallel: int,
    keep: bool,
    starts: Callable[[Cell], None],
    ended: Callable[[Ended], None],
) -> None:
    """All of them, in that order, so many at a time; whatever ends us ends those that run."""
    waiting, running = list(cells), list[Repeat]()
    try:
        while waiting or running:
            while waiting and len(running) < parallel:
                starts(waiting[0])
                running.append(Repeat(setup, waiting.pop(0), folder))
            over = [repeat for repeat in running if repeat.over]
            for repeat in over:
                running.remove(repeat)
                ended(repeat.finish(keep=keep))
            if not over:
                time.sleep(_LOOK_EVERY_S)
    finally:
        end_all([repeat.training for repeat in running])
        for repeat in running:
            shutil.rmtree(repeat.run, ignore_errors=True)
