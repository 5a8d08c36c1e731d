"""A model that ranks no better than a random order of the documents is told from one that does."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from ttf.training.chance import Ranked, nothing_learned
from ttf.training.evaluation import metrics_from_ranks

KS = (1, 10, 100, 500)


def ranked(metrics: dict[str, float], queries: int = 4000, documents: int = 41_632) -> Ranked:
    return Ranked(metrics=metrics, queries=queries, documents=documents)


CHANCE = {"recall@1": 0.0, "recall@10": 0.0002, "recall@100": 0.0024, "recall@500": 0.012}
SEVERAL = {**CHANCE, "recall@100": 0.01}


@given(seed=st.integers(0, 10_000), queries=st.integers(50, 400), documents=st.integers(30, 5000))
@settings(max_examples=100, deadline=None)
def test_a_random_order_is_not_above_chance(seed: int, queries: int, documents: int) -> None:
    ranks = np.random.default_rng(seed).integers(documents, size=(queries, 1))
    found = Ranked(metrics=metrics_from_ranks(ranks, KS), queries=queries, documents=documents)
    if any(2 * k <= documents for k in KS):
        # Rarely a cut-off is, by three standard deviations; then the model has the benefit of doubt.
        above = found.above_chance(KS)
        half = Ranked(
            metrics={f"recall@{k}": 0.6 for k in KS}, queries=queries, documents=documents
        )
        assert half.above_chance(KS)
        assert not above or found.metrics["recall@1"] < 0.6


def test_both_evaluations_must_be_at_chance_at_every_cut_off() -> None:
    said = nothing_learned(ranked(CHANCE), ranked(CHANCE), KS, "recall@10")
    assert "recall@10 is 0.0002 (0.0002 before training)" in said
    assert "a random order has a recall@500 of 0.0120" in said
    assert nothing_learned(ranked(SEVERAL), ranked(CHANCE), KS, "recall@10") == ""
    assert nothing_learned(ranked(CHANCE), ranked(SEVERAL), KS, "recall@10") == ""


def test_one_query_cannot_tell_and_it_is_not_called_chance() -> None:
    found = ranked({"recall@1": 1.0}, queries=1, documents=5)
    said = nothing_learned(found, found, (1,), "recall@1")
    assert said.startswith("With 1 validation query nothing shows whether")
    assert "no better than chance" not in said
    assert "no better than chance" in nothing_learned(
        ranked({"recall@1": 0.2}, queries=40, documents=5),
        ranked({"recall@1": 0.2}, queries=40, documents=5),
        (1,),
        "recall@1",
    )


@pytest.mark.parametrize("documents", [1, 2, 15])
def test_a_bank_too_small_to_tell_is_no_reason(documents: int) -> None:
    found = ranked({"recall@10": 0.0, "recall@100": 1.0}, documents=documents)
    assert nothing_learned(found, found, (10, 100), "recall@10") == ""
