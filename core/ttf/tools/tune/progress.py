"""The progress of a study on standard error: a line for each trial, live on a terminal."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from ttf.rundir.run_record import RunRecord
from ttf.text.terminal import echo, is_terminal, one_short_line
from ttf.tools.studies.one_run import FinishedRun
from ttf.tools.tune import words
from ttf.tools.tune.study import TuneStudy, TuneWatcher
from ttf.tools.tune.trial import LOOKS, TuneTrial

_FORMAT = "{:>5}  {:>8}  {:<12} {:>8}  {}"
_CLEAR = "\x1b[K"


@dataclass
class TrialLines(TuneWatcher):
    """On a terminal the last line is that of the running trial, and is renewed in place."""

    study: TuneStudy
    begun: bool = False
    open: bool = False  # the last line has no end yet

    @property
    def live(self) -> bool:
        return is_terminal(sys.stderr)

    def starts(self, task: TuneTrial) -> None:
        if not self.begun:
            echo(_FORMAT.format(*words.HEADER), err=True)
            self.begun = True
        if self.live:
            self.working(task, (), 0.0)

    def working(self, task: TuneTrial, scores: Sequence[float], seconds: float) -> None:
        if not self.live:
            return
        score = f"({scores[-1]:.4f})" if scores else "..."
        state = f"running {len(scores)}/{LOOKS}"
        text = words.point_text(self.study.setup, task)
        self._line((str(task.number), score, state, f"{seconds:.0f}", text), "")

    def ended(self, finished: FinishedRun[TuneTrial], budget_left_s: float | None) -> None:
        trial = finished.run
        best = self.study.best
        cells = words.row(self.study.setup, trial)
        mark = "  <- best so far" if best is not None and best.number == trial.number else ""
        self._line((*cells[:-1], f"{cells[-1]}{mark}"), "\n")
        if trial.reason:
            echo(f"       {one_short_line(trial.reason, 160)}", err=True)

    def last_run(self, seconds: float) -> None:
        """The line of the last run, which is renewed in place."""
        if self.live:
            done = scores_of(self.study)
            score = f"({done[-1]:.4f})" if done else "..."
            self._line(("best", score, "full run", f"{seconds:.0f}", "on all training pairs"), "")

    def close(self) -> None:
        """Ends the line that was renewed."""
        if self.live and self.open:
            echo(err=True)
            self.open = False

    def _line(self, cells: Sequence[str], end: str) -> None:
        self.open = not end
        line = _FORMAT.format(*cells)
        if not self.live:
            echo(line, err=True, end=end)
            return
        width = max(20, shutil.get_terminal_size().columns - 1)
        echo(one_short_line(line, width), err=True, begin="\r", end=f"{_CLEAR}{end}")


def scores_of(study: TuneStudy) -> list[float]:
    """Of the last run's evaluations, on the validation pairs."""
    metric, out = study.setup.metric, []
    for line in RunRecord(study.best_run).metrics():
        if line["type"] == "eval" and metric in line.get("metrics", {}):
            out.append(line["metrics"][metric])
    return out
