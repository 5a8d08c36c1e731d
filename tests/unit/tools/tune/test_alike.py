"""Figures in mid-run are compared among trials whose documents are treated alike."""

from __future__ import annotations

from tests.kit.tuned_by_hand import setup, trial

from ttf.tools.tune import search
from ttf.tools.tune.setup import DOC_TOWER


def test_stored_documents_are_not_hopeless_beside_trained_ones() -> None:
    made = setup()
    trained = {**made.start_point, DOC_TOWER: "mlp"}
    trials = [trial(n, trained, 0.5 + n / 100) for n in range(1, 7)]
    assert search.is_hopeless(made, trials, trained, [0.2])
    assert not search.is_hopeless(made, trials, dict(made.start_point), [0.2])


def test_trained_documents_behind_stored_ones_are_hopeless() -> None:
    made = setup()
    trials = [trial(n, dict(made.start_point), 0.5 + n / 100) for n in range(1, 7)]
    assert search.is_hopeless(made, trials, {**made.start_point, DOC_TOWER: "mlp"}, [0.2])
