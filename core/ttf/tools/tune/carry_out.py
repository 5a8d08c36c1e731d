"""A study from its first trial to the end of the last run, for the command and for Python."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from ttf.errors import TtfError
from ttf.text.numbers import duration
from ttf.tools.tune import finish, words
from ttf.tools.tune.last_run import is_finished, run_last, says_late, write_best
from ttf.tools.tune.progress import TrialLines
from ttf.tools.tune.study import TuneStudy, TuneWatcher, search_on
from ttf.tools.tune.time_left import reserve_s


def carry_through(
    study: TuneStudy,
    *,
    began: float,
    budget_s: float | None = None,
    trials: int | None = None,
    lines: TrialLines | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Returns the document of --json. `began`: on the monotonic clock, when the command began.
    `budget_s` and `trials`: others than those the study began with."""
    budget_s = budget_s or study.setup.budget_s
    trials = trials or study.setup.trials
    clock = study.clock(began)
    say(words.introduction(study, budget_s, clock.used_s))
    search_on(study, clock, budget_s, trials, lines or TuneWatcher())
    write_best(study)
    finish.write_page(study)
    say(words.verdict(study))
    if not is_finished(study):
        _announce(study, budget_s - clock.used_s, say)
    started = time.monotonic()

    def working() -> None:
        clock.keep()
        if lines is not None:
            lines.last_run(time.monotonic() - started)

    try:
        summary = run_last(study, working)
    except TtfError as error:
        finish.write_page(study)
        error.details.setdefault("study", finish.result(study, {}, "stopped", clock.used_s))
        raise
    finally:
        clock.keep(now=True)
        if lines is not None:
            lines.close()
    return finish.conclude(study, summary, clock.used_s)


def _announce(study: TuneStudy, left_s: float, say: Callable[[str], None]) -> None:
    needed_s = reserve_s(study.setup, study.counted)
    say(
        f"Now it is trained on all training pairs, in {study.best_run}: about {duration(needed_s)}."
    )
    if late := says_late(study, needed_s, left_s):
        say(f"note: {late}")
