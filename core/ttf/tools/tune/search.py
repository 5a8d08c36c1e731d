"""The questions that Optuna answers: what to try next, what is hopeless, what mattered.

Every question is asked of a study in memory that is made anew from the finished trials, with a seed
that depends on the number of the trial only: the journal decides, whatever died in between.
"""

from __future__ import annotations

import contextlib
import hashlib
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from ttf.errors import PluginUnavailable
from ttf.tools.tune.setup import DOC_TOWER, Dimension, TuneSetup
from ttf.tools.tune.space import rounded
from ttf.tools.tune.trial import TuneTrial

if TYPE_CHECKING:
    import optuna
    from optuna.distributions import BaseDistribution

_RANDOM_FIRST: Final = 8  # trials before the sampler uses what it has seen
# Not the half: those that finished are good ones, and most others would be behind their median by
# less than chance.
_KEPT_PERCENT: Final = 75.0
_COMPARED_WITH: Final = 4  # trials that reached a look before one may be hopeless there
FEWEST_FOR_IMPORTANCES: Final = 10


def require() -> None:
    """Raises PluginUnavailable with the command that installs Optuna."""
    try:
        with _quiet():
            import optuna  # noqa: F401
    except ImportError as error:
        raise PluginUnavailable(
            f"ttf tune needs Optuna, which cannot be imported: {error}.",
            hint='pip install "twotower[tune]"',
        ) from error


def next_point(setup: TuneSetup, trials: Sequence[TuneTrial], number: int) -> dict[str, Any]:
    """Equal for equal trials. Trial 1 is the start, and is not asked for here."""
    with _quiet():
        study = _study(setup, trials, _seed(setup.seed, number))
        planned = setup.first[number - 2] if number - 2 < len(setup.first) else {}
        if planned:
            study.enqueue_trial(dict(planned))
        asked = study.ask()
        point: dict[str, Any] = {}
        for dimension in setup.space:
            if dimension.applies({**setup.start, **point}):
                point[dimension.key] = _inside(dimension, rounded(_suggested(asked, dimension)))
    return point


def _inside(dimension: Dimension, value: Any) -> Any:
    if dimension.kind == "choice":
        return value
    return min(max(value, type(value)(dimension.low)), type(value)(dimension.high))


def is_hopeless(
    setup: TuneSetup,
    trials: Sequence[TuneTrial],
    point: Mapping[str, Any],
    scores: Sequence[float],
) -> bool:
    """Whether a trial with these scores so far is behind three quarters of the finished ones
    at the same share of their steps.

    Scores in mid-run are not calibrated. That is worth more where documents are as they are stored
    than where their tower is trained: the former are compared with their like only.
    """
    if not _trains_documents(setup, point):
        trials = [trial for trial in trials if not _trains_documents(setup, trial.point)]
    with _quiet():
        study = _study(setup, trials, 0)
        asked = study.ask()
        for look, score in enumerate(scores, start=1):
            asked.report(score, look)
        return bool(asked.should_prune())


def _trains_documents(setup: TuneSetup, point: Mapping[str, Any]) -> bool:
    return bool({**setup.settled, **point}[DOC_TOWER] != "identity")


def importances(setup: TuneSetup, trials: Sequence[TuneTrial]) -> dict[str, float]:
    """The share of each key in what made trials good; empty if there are too few trials."""
    known = [t for t in trials if t.outcome == "finished" and t.point]
    if len(known) < FEWEST_FOR_IMPORTANCES or len({t.score for t in known}) == 1:
        return {}
    with _quiet():
        from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances

        study = _study(setup, known, 0)
        found = get_param_importances(study, evaluator=PedAnovaImportanceEvaluator())
    return {key: round(float(value), 4) for key, value in found.items()}


def _seed(seed: int, number: int) -> int:
    return int.from_bytes(hashlib.sha256(f"{seed} {number}".encode()).digest()[:4], "big")


def _study(setup: TuneSetup, trials: Sequence[TuneTrial], seed: int) -> optuna.Study:
    import optuna

    sampler = optuna.samplers.TPESampler(
        seed=seed, multivariate=True, group=True, n_startup_trials=_RANDOM_FIRST
    )
    pruner = optuna.pruners.PercentilePruner(
        _KEPT_PERCENT, n_startup_trials=_COMPARED_WITH, n_min_trials=_COMPARED_WITH
    )
    study = optuna.create_study(direction="maximize", sampler=sampler, pruner=pruner)
    for trial in trials:
        if trial.counted:
            study.add_trial(_frozen(setup, trial))
    return study


def _frozen(setup: TuneSetup, trial: TuneTrial) -> optuna.trial.FrozenTrial:
    from optuna.trial import TrialState, create_trial

    finished = trial.outcome == "finished" and trial.score is not None
    keys = {d.key: d for d in setup.space}
    # A failed trial counts as the worst of those that were ended early: its values are bad ones.
    return create_trial(
        state=TrialState.COMPLETE if finished else TrialState.PRUNED,
        value=trial.score if finished else None,
        params=dict(trial.point),
        distributions={key: _distribution(keys[key]) for key in trial.point},
        intermediate_values=dict(enumerate(trial.scores, start=1)),
    )


def _distribution(dimension: Dimension) -> BaseDistribution:
    from optuna.distributions import (
        CategoricalDistribution,
        FloatDistribution,
        IntDistribution,
    )

    if dimension.kind == "choice":
        return CategoricalDistribution(dimension.choices)
    if dimension.kind == "int":
        return IntDistribution(int(dimension.low), int(dimension.high), log=True)
    return FloatDistribution(dimension.low, dimension.high, log=dimension.low > 0)


def _suggested(asked: optuna.Trial, dimension: Dimension) -> Any:
    if dimension.kind == "choice":
        return asked.suggest_categorical(dimension.key, dimension.choices)
    if dimension.kind == "int":
        return asked.suggest_int(dimension.key, int(dimension.low), int(dimension.high), log=True)
    low, high = dimension.low, dimension.high
    return asked.suggest_float(dimension.key, low, high, log=low > 0)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Optuna's own lines and its warnings about experimental options are not for our users."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import optuna

        before = optuna.logging.get_verbosity()
        optuna.logging.set_verbosity(optuna.logging.CRITICAL)
        try:
            yield
        finally:
            optuna.logging.set_verbosity(before)


def changed(setup: TuneSetup, point: Mapping[str, Any]) -> dict[str, Any]:
    """The values that differ from the start's."""
    return {k: v for k, v in point.items() if setup.start_point.get(k) != v}
