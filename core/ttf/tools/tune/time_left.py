"""The arithmetic of the budget, and the clock that a killed study finds again.

The budget holds everything: the look at the data, the trials, and the last run. A trial is given so
much time that after it there is enough for a full run of whatever wins.
"""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from ttf.errors import ArtifactDamaged, ConfigError
from ttf.rundir import durable
from ttf.rundir.confined import read_json
from ttf.rundir.typed_json import is_number
from ttf.text.numbers import duration
from ttf.tools.tune.setup import TuneSetup
from ttf.tools.tune.trial import TuneTrial, best_of

CLOCK: Final = "clock.json"
_SAVE_EVERY_S: Final = 5.0
_MARGIN: Final = 1.15  # a run takes longer than the one before it by so much, now and then
_WANTED_TRIALS: Final = 6  # as long as the start; many others end early, or are quicker
_LEAST_SHARE: Final = 0.1  # A shorter trial says little about a full run.
_MOST_FAILED: Final = 4  # trials, and none finished
_WORTH_IT: Final = 0.5  # of a usual trial's time: with less, none is begun


class Clock:
    """Seconds that this study has used, over all its sittings; monotonic within each.

    A kill -9 forgets at most five seconds.
    """

    def __init__(self, folder: Path, began: float) -> None:
        self._folder = folder
        self._began = began
        self._before_s = 0.0
        self._saved_s = 0.0
        with contextlib.suppress(FileNotFoundError, ArtifactDamaged, LookupError, TypeError):
            used_s = read_json(folder / CLOCK, folder)["used_s"]
            self._before_s = max(0.0, float(used_s)) if is_number(used_s) else 0.0

    @property
    def used_s(self) -> float:
        return self._before_s + time.monotonic() - self._began

    def keep(self, *, now: bool = False) -> None:
        """Called often; writes rarely."""
        used_s = self.used_s
        if now or used_s - self._saved_s > _SAVE_EVERY_S:
            self._saved_s = used_s
            durable.write_json(self._folder / CLOCK, {"used_s": round(used_s, 3)}, "tune")


def trial_share(budget_s: float, full_s: float) -> float:
    """How long trials are, as a share of a full run: six like the start fit beside the
    last run.

    >>> trial_share(600, 20), trial_share(600, 100), trial_share(600, 250)
    (1.0, 0.81, 0.21)
    """
    left_s = budget_s - _MARGIN * full_s
    return min(1.0, round(left_s / (_WANTED_TRIALS * full_s), 2)) if full_s > 0 else 1.0


def least_budget_s(full_s: float) -> float:
    """For the start as a short trial, and a full run."""
    return full_s * (_MARGIN + _LEAST_SHARE)


def checked_share(budget_s: float, full_s: float) -> float:
    """Raises ConfigError if the budget is too small."""
    least_s = least_budget_s(full_s)
    if budget_s < least_s:
        raise ConfigError(
            f"The budget of {duration(budget_s)} is too small: a full run takes about "
            f"{duration(full_s)} here, and one short trial before it about "
            f"{duration(_LEAST_SHARE * full_s)}.",
            hint=f"Give at least --budget {max(1, round(least_s / 60 + 0.5))}m, or make the run "
            "shorter, for example with --epochs.",
        )
    return max(_LEAST_SHARE, trial_share(budget_s, full_s))


def last_run_s(setup: TuneSetup, trial: TuneTrial) -> float:
    """A full run with the values of this trial, from its measured time: its steps for all pairs and
    all epochs, the evaluations on the validation pairs instead of the hold-out, and the calibration
    as it is predicted. (The trial's own calibration counts as training: rather too much.)"""
    facts = setup.facts
    training_s = max(0.0, trial.seconds - trial.evaluating_s)
    longer = facts.pairs / facts.trial_pairs / setup.share
    looks = max(1, len(trial.scores) + 1)
    each_s = trial.evaluating_s / looks * facts.val / max(1, facts.held_out)
    evaluating_s = each_s * _evaluations(setup, trial)
    return _MARGIN * (training_s * longer + evaluating_s + facts.calibration_s)


def _evaluations(setup: TuneSetup, trial: TuneTrial) -> float:
    """Of the last run, the one before its first step included."""
    values = {**setup.settled, **trial.point}
    every = values["evaluate.every"]
    if every == "end":
        return 2
    if every == "epoch":
        return 1 + float(values["train.epochs"])
    return 2 + trial.steps / setup.share / int(every)


def reserve_s(setup: TuneSetup, trials: Sequence[TuneTrial]) -> float:
    """For the last run, as things stand."""
    best = best_of(trials)
    return _MARGIN * setup.facts.predicted_s if best is None else last_run_s(setup, best)


def trial_limit_s(setup: TuneSetup, trials: Sequence[TuneTrial], left_s: float) -> float | None:
    """The most that the next trial may take; None if none should begin.

    Both hold after it: there is time for the best so far, and for this one if it wins.
    """
    finished = [t for t in trials if t.outcome == "finished"]
    best = best_of(trials)
    if not trials:  # The start: if it takes longer, not even its own full run fits.
        return left_s / (1 + _MARGIN / setup.share)
    if best is None:  # All failed so far.
        limit_s = left_s - reserve_s(setup, trials)
        return limit_s if limit_s > 0 and len(trials) < _MOST_FAILED else None
    usual_s = statistics.median(t.seconds for t in finished)
    scale = last_run_s(setup, best) / best.seconds if best.seconds else 1.0
    limit_s = min(left_s - reserve_s(setup, trials), left_s / (1 + scale))
    return limit_s if limit_s >= _WORTH_IT * usual_s else None
