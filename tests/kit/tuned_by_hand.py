"""Studies of `ttf tune` made by hand: the facts of a data set, a setup, trials with scores."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from ttf.config.resolve import flat, resolve
from ttf.tools.tune import search
from ttf.tools.tune.setup import TuneSetup
from ttf.tools.tune.study import TuneRequest, setup_from
from ttf.tools.tune.trial import TuneTrial


def found(
    *,
    sets: tuple[str, ...] = (),
    toml: Path | None = None,
    pairs: int = 20_000,
    bank: int = 28_000,
    length: int = 1,
    predicted_s: float = 20.0,
) -> dict[str, Any]:
    """As `ttf.tools.tune.facts` answers, of a run with the tower `linear` if none is named."""
    given = resolve(toml, sets)
    settled = flat(given.config) | {"train.batch_size": 512, "loss.memory_bank": 20_000}
    if settled["evaluate.every"] == "auto":
        settled["evaluate.every"] = "epoch"
    if "tower.query.name" not in "".join(sets):
        settled["tower.query.name"] = "linear"
    return {
        "config": given.config.model_dump(mode="json"),
        "origins": dict(given.origins),
        "settled": settled,
        "steps": 8 * (pairs // 512),
        "hold_out": 0.1,
        "pairs": pairs,
        "val": 1000,
        "predicted_s": predicted_s,
        "calibration_s": 1.0,
        "trial_pairs": pairs - pairs // 10,
        "held_out": pairs // 10,
        "bank": bank,
        "length": length,
    }


def setup(
    *, budget_s: float = 600.0, seed: int = 0, sets: tuple[str, ...] = (), **facts: Any
) -> TuneSetup:
    request = TuneRequest(sets=sets, flags={}, seed=seed, budget_s=budget_s)
    return setup_from(found(sets=sets, **facts), request)


def trial(number: int, point: dict[str, Any], score: float, seconds: float = 10.0) -> TuneTrial:
    """A finished one, which was better at each look."""
    scores = tuple(round(score * share, 6) for share in (0.7, 0.85, 0.95, 1.0))
    return TuneTrial(
        number=number,
        point=point,
        scores=scores,
        score=score,
        metrics={"recall@10": score},
        steps=320,
        seconds=seconds,
        evaluating_s=seconds / 5,
    )


def score_of(point: dict[str, Any]) -> float:
    """A hill with its top at a temperature of 0.03 and an MLP."""
    away: float = abs(point.get("loss.temperature", 0.2) - 0.03)
    return round(0.5 - away + 0.1 * (point.get("tower.query.name") == "mlp"), 6)


def history(made: TuneSetup, count: int) -> list[TuneTrial]:
    """The trials of a study of this setup; the fourth failed, the sixth was ended early."""
    trials = [trial(1, dict(made.start_point), score_of(dict(made.start_point)))]
    for number in range(2, count + 1):
        point = search.next_point(made, trials, number)
        one = trial(number, point, score_of(point), seconds=5.0 + number)
        if number == 4:
            one = replace(
                one, outcome="failed", scores=(), score=None, reason="the loss is not finite"
            )
        if number == 6:
            one = replace(one, outcome="hopeless", scores=one.scores[:1], score=None)
        trials.append(one)
    return trials
