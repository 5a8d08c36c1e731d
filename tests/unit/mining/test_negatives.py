"""The positive-aware draw against a loop a person would write."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from numpy.typing import NDArray

from ttf.config.loss_schema import NegativesConfig
from ttf.errors import ConfigError
from ttf.mining.miner_results import CandidateTable
from ttf.mining.negatives import (
    candidates_needed,
    ceilings,
    draw,
    remark_on_yield,
    yield_report,
)


def make_table(seed: int, queries: int, k: int, documents: int, offset: float) -> CandidateTable:
    rng = np.random.default_rng(seed)
    ids = np.stack([rng.permutation(documents)[:k] for _ in range(queries)])
    scores = -np.sort(-(rng.standard_normal((queries, k)) + offset), axis=1)
    return CandidateTable(
        rows=np.sort(rng.permutation(10 * queries)[:queries]),
        ids=ids.astype(np.int64),
        scores=scores.astype(np.float32),
        positive_scores=(rng.standard_normal(queries) + offset).astype(np.float32),
        key="test",
    )


def naive_survivors(
    table: CandidateTable, at: int, known: NDArray[np.int64], config: NegativesConfig
) -> list[int]:
    positive = float(table.positive_scores[at])
    found = []
    for rank, (document, score) in enumerate(zip(table.ids[at], table.scores[at], strict=True)):
        if rank < config.rank_from or (config.rank_to is not None and rank >= config.rank_to):
            continue
        if document in known:
            continue
        if config.relative_margin is not None and not (
            float(score) < positive - config.relative_margin * abs(positive)
        ):
            continue
        if config.absolute_margin is not None and not (
            float(score) < positive - config.absolute_margin
        ):
            continue
        found.append(int(document))
    return found


NO_KNOWN = np.full((200, 1), -1, np.int64)

configs = st.builds(
    NegativesConfig,
    relative_margin=st.none() | st.floats(0, 0.9),
    absolute_margin=st.none() | st.floats(0, 2),
    rank_from=st.integers(0, 10),
    rank_to=st.none() | st.integers(1, 30),
    draw_from=st.integers(1, 12),
)


@settings(max_examples=150, deadline=None)
@given(
    config=configs,
    seed=st.integers(0, 2**31),
    k=st.integers(1, 25),
    num=st.integers(1, 6),
    offset=st.sampled_from([-2.0, 0.0, 2.0]),
)
def test_the_draw_takes_from_the_survivors_a_loop_finds(
    config: NegativesConfig, seed: int, k: int, num: int, offset: float
) -> None:
    table = make_table(seed, queries=12, k=k, documents=30, offset=offset)
    rng = np.random.default_rng(seed + 1)
    known = rng.integers(-1, 30, (12, 3))
    ids, kept = draw(table, table.rows, known, config, num, key=seed)
    for at in range(12):
        survivors = naive_survivors(table, at, known[at], config)
        drawn = [i for i in ids[at].tolist() if i >= 0]
        assert kept[at] == len(survivors)
        assert len(drawn) == len(set(drawn)) == min(num, config.draw_from, len(survivors))
        assert set(drawn) <= set(survivors[: config.draw_from])
        assert ids[at].tolist() == drawn + [-1] * (num - len(drawn))


def test_a_negative_positive_score_still_keeps_its_distance() -> None:
    """s_pos = -1, margin 0.5: the limit is -1.5, not -0.5."""
    table = CandidateTable(
        rows=np.array([0]),
        ids=np.array([[5, 6, 7]]),
        scores=np.array([[-0.6, -1.4, -1.6]], np.float32),
        positive_scores=np.array([-1.0], np.float32),
        key="test",
    )
    config = NegativesConfig(relative_margin=0.5)
    ids, kept = draw(table, np.array([0]), np.array([[9]]), config, 3, key=1)
    assert ids.tolist() == [[7, -1, -1]]
    assert kept.tolist() == [1]


def test_a_row_gets_the_same_negatives_in_any_company() -> None:
    table = make_table(1, queries=40, k=20, documents=100, offset=0)
    known = np.full((40, 1), -1)
    config = NegativesConfig(relative_margin=None)
    together, _ = draw(table, table.rows, known, config, 4, key=9)
    for at in (0, 17, 39):
        alone, _ = draw(table, table.rows[[at]], known[[at]], config, 4, key=9)
        assert (alone[0] == together[at]).all()
    other, _ = draw(table, table.rows, known, config, 4, key=10)
    assert (other != together).any()


def test_rows_with_equal_candidates_draw_independently() -> None:
    table = make_table(4, queries=1, k=20, documents=20, offset=0)
    many = CandidateTable(
        rows=np.arange(200),
        ids=np.repeat(table.ids, 200, axis=0),
        scores=np.repeat(table.scores, 200, axis=0),
        positive_scores=np.repeat(table.positive_scores, 200),
        key="test",
    )
    config = NegativesConfig(relative_margin=None, draw_from=10)
    ids, _ = draw(many, many.rows, np.full((200, 1), -1), config, 1, key=5)
    assert len(np.unique(ids)) == 10


def test_every_survivor_in_reach_is_drawn_about_equally_often() -> None:
    table = make_table(2, queries=1, k=20, documents=20, offset=0)
    config = NegativesConfig(relative_margin=None, draw_from=10)
    counts = np.zeros(20)
    for step in range(2000):
        ids, _ = draw(table, table.rows, np.array([[-1]]), config, 4, key=step)
        counts[ids[0]] += 1
    reach = counts[table.ids[0, :10]]
    assert counts.sum() == reach.sum()
    assert reach.min() > 0.85 * 800
    assert reach.max() < 1.15 * 800


def test_rows_without_candidates_get_none() -> None:
    table = make_table(3, queries=5, k=20, documents=50, offset=0)
    missing = np.setdiff1d(np.arange(60), table.rows)[:3]
    config = NegativesConfig(relative_margin=None)
    ids, kept = draw(table, missing, np.full((3, 1), -1), config, 2, key=0)
    assert (ids == -1).all()
    assert (kept == 0).all()


def test_a_query_without_a_known_positive_score_gets_none() -> None:
    table = make_table(3, queries=2, k=20, documents=50, offset=0)
    table.positive_scores[0] = np.nan
    ids, kept = draw(table, table.rows, np.full((2, 1), -1), NegativesConfig(), 2, key=0)
    assert (ids[0] == -1).all()
    assert kept[0] == 0


def flat_table(**changes: Any) -> CandidateTable:
    """100 queries; query i has one candidate at 1 - i / 100 of its positive score of 1."""
    margins = np.arange(100) / 100
    values: dict[str, Any] = {
        "rows": np.arange(100),
        "ids": np.arange(100)[:, None],
        "scores": (1 - margins).astype(np.float32)[:, None],
        "positive_scores": np.ones(100, np.float32),
        "key": "flat",
    }
    return CandidateTable(**(values | changes))


def test_the_report_counts_what_the_filter_leaves() -> None:
    known = np.full((100, 1), -1)
    report = yield_report(flat_table(), known, NegativesConfig(relative_margin=0.305))
    assert report.with_survivor == pytest.approx(0.69)
    assert report.kept_share == pytest.approx(0.69)
    assert report.survivors == {"p10": 0, "p50": 1, "p90": 1}


@pytest.mark.parametrize("floor", [0.1, 0.5, 0.9])
def test_a_floor_that_the_user_set_is_kept_and_the_margin_it_suggests_reaches_it(
    floor: float,
) -> None:
    known, table = np.full((100, 1), -1), flat_table()
    strict = NegativesConfig(relative_margin=0.995, min_yield=floor)
    report = yield_report(table, known, strict)
    with pytest.raises(ConfigError, match=r"Only 0\.0% of 100 queries") as refused:
        remark_on_yield(table, report, strict)
    assert report.suggested_margin is not None
    assert f"relative_margin={report.suggested_margin:.4g}" in refused.value.hint
    relaxed = NegativesConfig(relative_margin=report.suggested_margin, min_yield=floor)
    again = yield_report(table, known, relaxed)
    assert remark_on_yield(table, again, relaxed) == ""
    assert again.with_survivor == pytest.approx(floor, abs=0.011)


def test_without_a_floor_too_few_negatives_are_said_and_refuse_nothing() -> None:
    known, table = np.full((100, 1), -1), flat_table()
    strict = NegativesConfig(relative_margin=0.995)
    report = yield_report(table, known, strict)
    said = remark_on_yield(table, report, strict)
    assert "Only 0.0% of 100 queries still have a mined negative after the filter" in said
    assert "The run continues" in said
    assert f"--set negatives.relative_margin={report.suggested_margin:.4g}" in said


def test_a_tower_that_cannot_rank_yet_is_not_held_to_the_floor() -> None:
    table = flat_table(scores=np.full((100, 1), 2, np.float32))
    settings = NegativesConfig(min_yield=0.5)
    report = yield_report(table, np.full((100, 1), -1), settings)
    assert "best documents for only 0.0% of the queries" in remark_on_yield(table, report, settings)


def test_no_margin_is_suggested_where_none_would_do() -> None:
    table = flat_table(scores=np.ones((100, 1), np.float32))
    settings = NegativesConfig(min_yield=0.1)
    report = yield_report(table, np.full((100, 1), -1), NegativesConfig(rank_from=1))
    with pytest.raises(ConfigError) as refused:
        remark_on_yield(table, report, settings)
    assert "No value of negatives.relative_margin is sufficient" in refused.value.hint


def test_an_empty_table_yields_nothing() -> None:
    table = CandidateTable(
        rows=np.empty(0, np.int64),
        ids=np.empty((0, 5), np.int64),
        scores=np.empty((0, 5), np.float32),
        positive_scores=np.empty(0, np.float32),
        key="empty",
    )
    ids, _ = draw(table, np.array([3]), np.array([[-1]]), NegativesConfig(), 2, key=0)
    assert (ids == -1).all()
    assert yield_report(table, np.empty((0, 1), np.int64), NegativesConfig()).with_survivor == 0


@pytest.mark.parametrize(("largest", "margin"), [(-math.inf, None), (math.inf, 0.9999)])
def test_a_margin_is_suggested_only_where_one_would_do(
    largest: float, margin: float | None
) -> None:
    from ttf.mining.negatives import _margin_reaching

    assert _margin_reaching(np.array([largest, largest]), 0.5) == margin


# --- miner.k = "auto" ------------------------------------------------------------------------


@given(config=configs, seed=st.integers(0, 20))
@settings(max_examples=100, deadline=None)
def test_without_a_margin_or_up_to_a_rank_more_candidates_change_no_draw(
    config: NegativesConfig, seed: int
) -> None:
    table = make_table(seed, queries=12, k=60, documents=100, offset=1.0)
    known = np.stack([table.ids[:, 1], np.full(12, -1)], axis=1).astype(np.int64)
    k, _ = candidates_needed(config, known.shape[1], passing=False)
    fewer = CandidateTable(
        rows=table.rows,
        ids=table.ids[:, :k],
        scores=table.scores[:, :k],
        positive_scores=table.positive_scores,
        key="fewer",
    )
    more, less = (draw(t, table.rows, known, config, 4, seed)[0] for t in (table, fewer))
    assert np.array_equal(more, less)


@pytest.mark.parametrize(
    ("keys", "number", "reason"),
    [
        ({}, 200, "the margin"),
        ({"rank_to": 30}, 30, "negatives.rank_to is 30"),
        ({"relative_margin": None}, 12, "drawn from 10 of them"),
        ({"relative_margin": None, "rank_from": 5, "draw_from": 3}, 10, "from rank 5 on"),
        ({"rank_from": 500}, 512, "the margin"),
        ({"relative_margin": None, "absolute_margin": 0.1}, 200, "the margin"),
    ],
    ids=str,
)
def test_as_many_candidates_as_a_draw_can_use(
    keys: dict[str, Any], number: int, reason: str
) -> None:
    found, why = candidates_needed(NegativesConfig(**keys), 2, passing=False)
    assert found == number and reason in why


# --- miner.candidates = "passing" ------------------------------------------------------------


def passing(table: CandidateTable, config: NegativesConfig, k: int) -> CandidateTable:
    """As the miner finds them: the k best of each query below its ceiling."""
    below = table.scores < ceilings(table.positive_scores, config)[:, None]
    first = np.argsort(~below, axis=1, kind="stable")[:, :k]
    held = np.take_along_axis(below, first, axis=1)
    return CandidateTable(
        rows=table.rows,
        ids=np.where(held, np.take_along_axis(table.ids, first, axis=1), -1),
        scores=np.where(held, np.take_along_axis(table.scores, first, axis=1), np.float32(-np.inf)),
        positive_scores=table.positive_scores,
        key="passing",
        passing=True,
    )


margins = st.builds(
    NegativesConfig,
    relative_margin=st.none() | st.floats(0, 0.9),
    absolute_margin=st.floats(0, 2),
    draw_from=st.integers(1, 12),
)


@given(config=margins, seed=st.integers(0, 20), offset=st.sampled_from([-2.0, 0.0, 2.0]))
@settings(max_examples=100, deadline=None)
def test_few_that_pass_are_drawn_as_from_all_documents(
    config: NegativesConfig, seed: int, offset: float
) -> None:
    table = make_table(seed, queries=12, k=100, documents=100, offset=offset)
    known = np.stack([table.ids[:, 1], np.full(12, -1)], axis=1).astype(np.int64)
    k, _ = candidates_needed(config, known.shape[1], passing=True)
    fewer = passing(table, config, k)
    more, less = (draw(t, table.rows, known, config, 4, seed)[0] for t in (table, fewer))
    assert np.array_equal(more, less)
    drawn = less[less >= 0]
    assert drawn.size == 0 or drawn.min() >= 0
    whole, short = (yield_report(t, known, config) for t in (table, fewer))
    assert short.with_survivor == whole.with_survivor
    assert short.negative_score == whole.negative_score
    assert short.kept_share >= whole.kept_share


@given(
    positive=st.floats(width=32, allow_nan=False) | st.sampled_from([np.nan, 0.0, -0.0]),
    relative=st.none() | st.floats(0, 0.99),
    absolute=st.none() | st.floats(0, 1e30),
    steps=st.integers(-2, 2),
)
@settings(max_examples=300, deadline=None)
def test_a_score_below_the_ceiling_is_one_that_the_draw_takes(
    positive: float, relative: float | None, absolute: float | None, steps: int
) -> None:
    config = NegativesConfig(relative_margin=relative, absolute_margin=absolute)
    positives = np.array([positive], np.float32)
    score = ceilings(positives, config)
    for _ in range(abs(steps)):
        with np.errstate(over="ignore"):
            score = np.nextafter(score, np.float32(np.copysign(np.inf, steps)))
    table = CandidateTable(
        rows=np.zeros(1, np.int64),
        ids=np.zeros((1, 1), np.int64),
        scores=score[:, None],
        positive_scores=positives,
        key="one",
    )
    with np.errstate(invalid="ignore"):
        _, kept = draw(table, table.rows, np.full((1, 1), -1), config, 1, 0)
    if np.isfinite(score[0]):
        assert bool(kept[0]) == bool(score[0] < ceilings(positives, config)[0])


def test_a_margin_that_nearly_nothing_passes_is_told_as_such() -> None:
    table = make_table(0, queries=200, k=30, documents=30, offset=5.0)
    config = NegativesConfig(absolute_margin=100.0)
    remark = remark_on_yield(
        passing(table, config, 12),
        yield_report(passing(table, config, 12), NO_KNOWN, config),
        config,
    )
    assert remark.startswith("Only 0.0% of 200 queries have a document whose score is below")
    assert "negatives.absolute_margin = 100.0" in remark
    assert "not trained enough" not in remark
    strict = NegativesConfig(absolute_margin=100.0, min_yield=0.2)
    few = passing(table, strict, 12)
    with pytest.raises(ConfigError, match="requires that 20.0% of the queries have one"):
        remark_on_yield(few, yield_report(few, NO_KNOWN, strict), strict)


@pytest.mark.parametrize(
    ("keys", "number"),
    [({}, 12), ({"draw_from": 3}, 5), ({"relative_margin": None, "absolute_margin": 0.1}, 12)],
    ids=str,
)
def test_below_the_margins_as_many_as_are_drawn_from(keys: dict[str, Any], number: int) -> None:
    found, why = candidates_needed(NegativesConfig(**keys), 2, passing=True)
    assert found == number and "besides 2 known positives" in why
