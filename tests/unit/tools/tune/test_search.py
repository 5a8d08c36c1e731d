"""What is tried next, what is hopeless, what mattered: functions of the finished trials alone."""

from __future__ import annotations

import random
import sys
from dataclasses import replace

import numpy as np
import pytest
from tests.kit.tuned_by_hand import found, history, score_of, setup, trial

from ttf.config.resolve import Layer, resolve
from ttf.errors import PluginUnavailable
from ttf.tools.tune import search
from ttf.tools.tune.setup import DOC_TOWER, TOWER
from ttf.tools.tune.space import space_of
from ttf.tools.tune.trial import best_of


def test_equal_trials_give_the_same_next_point_whatever_else_happened() -> None:
    made = setup()
    trials = history(made, 12)
    points = []
    for noise in (1, 2):
        random.seed(noise)
        np.random.seed(noise)
        points.append(search.next_point(made, trials, 13))
    assert points[0] == points[1]
    assert search.next_point(setup(seed=1), trials, 13) != points[0]
    interrupted = replace(trials[-1], number=13, outcome="void", score=None)
    assert search.next_point(made, [*trials, interrupted], 13) == points[0]


def test_every_point_lies_in_the_space_and_is_a_valid_configuration() -> None:
    made = setup()
    dimensions = {dimension.key: dimension for dimension in made.space}
    for one in history(made, 14):
        assert all(dimensions[key].holds(value) for key, value in one.point.items())
        is_mlp = one.point[TOWER] == "mlp"
        assert ("tower.query.hidden" in one.point) == is_mlp
        layer = Layer()
        for key, value in one.point.items():
            layer.add(tuple(key.split(".")), value, "trial")
        resolve(layer)


def test_the_search_finds_the_hill() -> None:
    made = setup()
    best = best_of(history(made, 40))
    assert best is not None and best.score is not None
    assert best.score > 0.57
    start = score_of(dict(made.start_point))
    assert best.score > start


def test_a_short_study_has_tried_the_usual_towers() -> None:
    towers = [one.point[TOWER] for one in history(setup(), 3)]
    assert towers == ["linear", "linear", "mlp"]


def test_what_the_user_gave_to_the_command_stays_and_what_the_file_says_is_varied() -> None:
    keys = {dimension.key for dimension in space_of(found())}
    assert {TOWER, DOC_TOWER, "train.lr", "train.epochs", "loss.temperature"} <= keys
    pinned = {d.key for d in space_of(found(sets=("train.lr=0.5", f"{TOWER}=linear")))}
    assert keys - pinned == {"train.lr", TOWER, "tower.query.hidden", "tower.query.dropout"}
    of_mlp = {d.key: d for d in space_of(found(sets=(f"{TOWER}=mlp",)))}
    assert not of_mlp["tower.query.hidden"].only_if


def test_large_data_has_no_trained_documents_and_no_mining() -> None:
    keys = {d.key for d in space_of(found(pairs=600_000, bank=800_000))}
    assert not keys & {DOC_TOWER, "miner.negatives"}


def test_items_without_vectors_keep_their_towers() -> None:
    keys = {d.key for d in space_of(found(sets=("data.items=400",), bank=400))}
    assert "train.lr" in keys and not any(key.startswith("tower.") for key in keys)


def test_recurrent_towers_are_only_for_sequences() -> None:
    def towers(length: int) -> tuple[str, ...]:
        facts = found(length=length)
        facts["settled"][TOWER] = "gru"
        return next(d.choices for d in space_of(facts) if d.key == TOWER)

    assert towers(1) == ("linear", "mlp")
    assert towers(20) == ("gru", "linear", "mlp")


def test_a_start_outside_of_the_space_is_tried_and_the_sampler_does_not_know_it() -> None:
    facts = found(sets=("tower.query.name=gru",))
    made = setup()
    outside = replace(made, start_point={})
    trials = [trial(1, {}, 0.4)]
    assert search.next_point(outside, trials, 2)[TOWER] == "linear"
    assert facts["settled"][TOWER] == "gru"


def test_a_trial_behind_three_quarters_of_the_others_is_hopeless() -> None:
    made = setup()
    trials = [trial(n, dict(made.start_point), 0.4 + n / 100) for n in range(1, 6)]
    assert search.is_hopeless(made, trials, {}, [0.1])
    assert not search.is_hopeless(made, trials, {}, [0.4])
    assert not search.is_hopeless(made, trials, {}, [0.296]), "the second of five from below"
    assert search.is_hopeless(made, trials, {}, [0.32, 0.33])
    assert not search.is_hopeless(made, trials[:3], {}, [0.0]), "three are too few to compare with"


def test_what_mattered_is_told_once_there_are_enough_trials() -> None:
    made = setup()
    trials = history(made, 40)
    shares = search.importances(made, trials)
    assert sum(shares.values()) == pytest.approx(1.0, abs=0.01)
    ranked = sorted(shares, key=lambda key: -shares[key])
    assert {TOWER, "loss.temperature"} & set(ranked[:2])
    assert search.importances(made, trials[:6]) == {}
    alike = [replace(one, score=0.5) for one in trials if one.score is not None]
    assert search.importances(made, alike) == {}


def test_optuna_says_nothing_on_the_terminal(capfd: pytest.CaptureFixture[str]) -> None:
    made = setup()
    search.importances(made, history(made, 16))
    assert capfd.readouterr() == ("", "")


def test_without_optuna_the_error_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(PluginUnavailable, match="needs Optuna") as caught:
        search.require()
    assert caught.value.hint == 'pip install "twotower[tune]"'
