"""What a study says to people: points, outcomes, the table at the end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ttf.text.numbers import duration
from ttf.tools.tune.search import changed
from ttf.tools.tune.setup import DOC_TOWER, TOWER, TuneSetup
from ttf.tools.tune.study import TuneStudy
from ttf.tools.tune.trial import TuneTrial

_SHORT: Final = {
    TOWER: "tower",
    DOC_TOWER: "doc",
    "tower.query.hidden": "hidden",
    "tower.query.dropout": "dropout",
    "train.lr": "lr",
    "loss.temperature": "temperature",
    "train.batch_size": "batch",
    "train.epochs": "epochs",
    "miner.negatives": "mined",
    "loss.memory_bank": "memory bank",
    "loss.symmetric": "symmetric",
}
HEADER: Final = ("trial", "score", "state", "seconds", "changed")


def short(key: str) -> str:
    return _SHORT.get(key, key)


def value_text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)


def point_text(setup: TuneSetup, trial: TuneTrial) -> str:
    """What differs from the user's configuration."""
    if trial.number == 1:
        return "your configuration"
    differs = changed(setup, trial.point)
    return ", ".join(f"{short(k)} {value_text(v)}" for k, v in differs.items()) or "nothing"


def score_text(trial: TuneTrial) -> str:
    if trial.score is not None:
        return f"{trial.score:.4f}"
    return f"({trial.scores[-1]:.4f})" if trial.scores else "-"


def state_text(trial: TuneTrial) -> str:
    if trial.outcome == "failed":
        return ", ".join(trial.incidents) or "failed"
    if trial.outcome == "hopeless":
        return f"ended at {len(trial.scores)}/4"
    return trial.outcome


def row(setup: TuneSetup, trial: TuneTrial) -> tuple[str, ...]:
    return (
        str(trial.number),
        score_text(trial),
        state_text(trial),
        f"{trial.seconds:.1f}",
        point_text(setup, trial),
    )


def table_rows(study: TuneStudy, most: int) -> list[tuple[str, ...]]:
    """The best finished trials, and the user's configuration, the best first."""
    finished = sorted(
        (t for t in study.counted if t.score is not None), key=lambda t: (-(t.score or 0), t.number)
    )
    shown = finished[:most]
    shown += [t for t in finished[most:] if t.number == 1]
    return [row(study.setup, trial) for trial in shown]


def trials_text(number: int) -> str:
    """
    >>> trials_text(1), trials_text(12)
    ('1 trial', '12 trials')
    """
    return f"{number:,} trial{'s' * (number != 1)}"


def introduction(study: TuneStudy, budget_s: float, used_s: float) -> str:
    setup = study.setup
    facts = setup.facts
    done = f" Already done: {trials_text(len(study.counted))}." if study.runs else ""
    used = f" of which {duration(used_s)} are used" if study.runs else ""
    return (
        f"Study in {study.folder}: {duration(budget_s)}{used}. Trials train on "
        f"{facts.trial_pairs:,} pairs and are judged by {setup.metric} on {facts.held_out:,} other "
        f"training pairs; the validation pairs are not read.{done}"
    )


def verdict(study: TuneStudy) -> str:
    """One or two sentences."""
    best, setup = study.best, study.setup
    assert best is not None
    assert best.score is not None
    start = next((t for t in study.counted if t.number == 1), None)
    counts: Mapping[str, int] = {
        outcome: sum(t.outcome == outcome for t in study.counted)
        for outcome in ("hopeless", "failed")
    }
    of = f"of {trials_text(len(study.counted))} ({counts['hopeless']} ended early"
    of += f", {counts['failed']} failed)" if counts["failed"] else ")"
    if any(trial.outcome == "cut" for trial in study.runs):
        of += ", without the last one, which was cut off when the time was used up"
    if best.number == 1:
        return (
            f"Your configuration is the best {of}: {setup.metric} {best.score:.4f} on the hold-out."
        )
    before = f"; yours has {start.score:.4f}" if start and start.score is not None else ""
    return (
        f"Trial {best.number} is the best {of}: {setup.metric} {best.score:.4f} on the "
        f"hold-out{before}."
    )
