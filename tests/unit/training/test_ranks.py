"""Exact ranks and the metrics made of them, against sorting everything."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from numpy.typing import NDArray

from ttf.config.schema import Gate
from ttf.contracts import EvalRecord
from ttf.data.order import Order
from ttf.errors import GateNotMet
from ttf.machine.processor import FirstPass
from ttf.training.evaluation import TIE, metrics_from_ranks, ranks_in_blocks
from ttf.training.schedule import gate_results, refuse_missed


def blocks(docs: torch.Tensor, size: int) -> Iterator[tuple[int, torch.Tensor]]:
    for start in range(0, len(docs), size):
        yield start, docs[start : start + size]


def ranked(
    q: torch.Tensor,
    docs: torch.Tensor,
    positives: NDArray[np.int64],
    size: int,
    first: FirstPass = "fp32",
) -> NDArray[np.int64]:
    own = docs[torch.from_numpy(np.maximum(positives, 0))]
    scores = (q[:, None] * own).sum(-1)
    ties = TIE * q.norm(dim=-1)[:, None] * own.norm(dim=-1)
    return ranks_in_blocks(q, scores, ties, positives, blocks(docs, size), first=first)


def by_sorting(
    q: torch.Tensor, docs: torch.Tensor, positives: NDArray[np.int64]
) -> NDArray[np.int64]:
    scores = (q.double() @ docs.double().T).numpy()
    out = np.full(positives.shape, -1, np.int64)
    for row, scored in enumerate(scores):
        order = np.argsort(-scored, kind="stable").tolist()  # ties: the smaller row first
        for column, document in enumerate(positives[row]):
            if document >= 0:
                out[row, column] = order.index(document)
    return out


def integers(rng: np.random.Generator, rows: int, high: int = 3) -> torch.Tensor:
    """Small whole numbers: many ties, and every product exact."""
    return torch.from_numpy(rng.integers(-high, high + 1, (rows, 4)).astype(np.float32))


@given(
    seed=st.integers(0, 10**6),
    size=st.sampled_from([1, 7, 63, 64, 65, 100, 128, 1000]),
    rows=st.integers(1, 300),
)
@settings(max_examples=60, deadline=None)
def test_ranks_are_those_of_sorting_all_scores(seed: int, size: int, rows: int) -> None:
    rng = np.random.default_rng(seed)
    q, docs = integers(rng, 9), integers(rng, rows)
    positives = rng.integers(-1, rows, (9, 3))
    assert (ranked(q, docs, positives, size) == by_sorting(q, docs, positives)).all()


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_so_they_are_for_real_numbers_of_any_size(scale: float) -> None:
    rng = np.random.default_rng(2)
    q = torch.from_numpy(rng.standard_normal((50, 32)).astype(np.float32)) * scale
    docs = torch.from_numpy(rng.standard_normal((700, 32)).astype(np.float32)) * scale
    positives = rng.integers(0, 700, (50, 2))
    assert (ranked(q, docs, positives, 130) == by_sorting(q, docs, positives)).all()


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_equal_documents_are_told_apart_by_their_row_alone(scale: float) -> None:
    rng = np.random.default_rng(3)
    one = torch.from_numpy(rng.standard_normal((1, 768)).astype(np.float32)) * scale
    others = torch.from_numpy(rng.standard_normal((200, 768)).astype(np.float32)) * scale
    docs = torch.cat([others, one, one, others, one])
    docs[[50, 250]] = -one
    positives = np.array([[200, 201, 402]])
    assert ranked(one, docs, positives, 96).tolist() == [[0, 1, 2]]


def test_the_last_of_many_has_the_last_rank() -> None:
    rng = np.random.default_rng(4)
    docs = torch.from_numpy(rng.standard_normal((1000, 8)).astype(np.float32))
    docs[777] = -100
    assert ranked(torch.ones(1, 8), docs, np.array([[777]]), 64).tolist() == [[999]]


def test_more_queries_than_a_tile() -> None:
    rng = np.random.default_rng(5)
    q, docs = integers(rng, 2100), integers(rng, 90)
    positives = rng.integers(0, 90, (2100, 1))
    assert (ranked(q, docs, positives, 50) == by_sorting(q, docs, positives)).all()


@pytest.mark.parametrize("noise", [0.1, 1.0, 3.0, 100.0])
@pytest.mark.parametrize("size", [100, 1000, 4096])
def test_bfloat16_decides_nothing_it_cannot_know(noise: float, size: int) -> None:
    """From documents at the top, which it tells apart, to ones anywhere, which it leaves open."""
    rng = np.random.default_rng(6)
    docs = rng.standard_normal((3000, 48)).astype(np.float32)
    docs[1000:1100] = docs[:100] * (1 + 1e-4)
    docs[2000:2100] = docs[:100]
    docs[7] *= 1000
    positives = rng.integers(0, 3000, (1200, 2))
    positives[::5, 1] = -1
    q = docs[positives[:, 0]] + noise * rng.standard_normal((1200, 48)).astype(np.float32)
    asked, bank = torch.from_numpy(q), torch.from_numpy(docs)
    plain = ranked(asked, bank, positives, size, "fp32")
    assert (ranked(asked, bank, positives, size, "bf16") == plain).all()


@pytest.mark.parametrize("scale", [1e-30, 1e-18, 1.0, 1e17, 1e19])
def test_so_it_is_with_lengths_of_any_size(scale: float) -> None:
    rng = np.random.default_rng(7)
    docs = torch.from_numpy((rng.standard_normal((500, 32)) * scale).astype(np.float32))
    q = docs[rng.integers(0, 500, 200)]
    positives = rng.integers(0, 500, (200, 1))
    found = ranked(q, docs, positives, 500, "bf16")
    assert (found == ranked(q, docs, positives, 500, "fp32")).all()


@given(seed=st.integers(0, 10**6), size=st.sampled_from([1, 63, 100, 1000]))
@settings(max_examples=15, deadline=None)
def test_ties_are_counted_by_row_after_bfloat16_too(seed: int, size: int) -> None:
    rng = np.random.default_rng(seed)
    q, docs = integers(rng, 150), integers(rng, 200)
    positives = rng.integers(-1, 200, (150, 2))
    assert (ranked(q, docs, positives, size, "bf16") == by_sorting(q, docs, positives)).all()


def test_metrics_of_one_positive_a_query_by_hand() -> None:
    found = metrics_from_ranks(np.array([[0], [3], [10], [200]]), [1, 10, 100])
    assert found["recall@1"] == 0.25
    assert found["recall@10"] == 0.5
    assert found["recall@100"] == 0.75
    assert found["mrr@10"] == pytest.approx((1 + 1 / 4) / 4)
    assert found["ndcg@10"] == pytest.approx((1 + 1 / np.log2(5)) / 4)


def test_metrics_of_several_positives_by_hand() -> None:
    ranks = np.array([[5, 0, -1], [12, -1, -1]])
    found = metrics_from_ranks(ranks, [1, 10])
    assert found["recall@1"] == pytest.approx((1 / 2 + 0) / 2), "the share of a query's own"
    assert found["recall@10"] == pytest.approx((1 + 0) / 2)
    assert found["mrr@10"] == pytest.approx(1 / 2)
    ideal = 1 + 1 / np.log2(3)
    assert found["ndcg@10"] == pytest.approx((1 + 1 / np.log2(7)) / ideal / 2)


def naive_metrics(ranks: NDArray[np.int64], ks: list[int]) -> dict[str, float]:
    rows = [[int(r) for r in row if r >= 0] for row in ranks]
    out = {f"recall@{k}": np.mean([sum(r < k for r in row) / len(row) for row in rows]) for k in ks}
    out["mrr@10"] = np.mean([1 / (min(row) + 1) if min(row) < 10 else 0 for row in rows])
    gains = []
    for row in rows:
        dcg = sum(1 / np.log2(r + 2) for r in row if r < 10)
        gains.append(dcg / sum(1 / np.log2(i + 2) for i in range(min(len(row), 10))))
    out["ndcg@10"] = np.mean(gains)
    return {name: float(value) for name, value in out.items()}


@given(seed=st.integers(0, 10**6), most=st.integers(1, 15))
@settings(max_examples=100, deadline=None)
def test_metrics_are_those_of_the_definitions(seed: int, most: int) -> None:
    rng = np.random.default_rng(seed)
    ranks = np.full((6, most), -1, np.int64)
    for row in ranks:
        count = int(rng.integers(1, most + 1))
        row[rng.permutation(most)[:count]] = rng.permutation(40)[:count]
    found = metrics_from_ranks(ranks, [1, 5, 10, 39])
    assert found == pytest.approx(naive_metrics(ranks, [1, 5, 10, 39]))
    assert all(0 <= value <= 1 + 1e-12 for value in found.values())


def record(step: int, value: float) -> EvalRecord:
    return EvalRecord(step=step, epoch=1, metrics={"recall@10": value}, seconds=0)


@pytest.mark.parametrize(
    ("need", "value", "met"),
    [
        ("recall@10 >= 0.5", 0.5, True),
        ("recall@10 > 0.5", 0.5, False),
        ("recall@10<=0.5", 0.6, False),
        ("recall@10 < 5e-1", 0.4, True),
    ],
)
def test_a_gate_is_looked_at_when_it_is_due(need: str, value: float, met: bool) -> None:
    gates = [Gate(at="step 20", need=need), Gate(at="epoch 2", need=need)]
    order = Order(size=68, samples_per_step=4, seed=0, fingerprint="")  # 17 steps an epoch
    refuse_missed(gate_results(gates, order, record(10, value)))
    refuse_missed(gate_results(gates, order, record(17, value)))
    for step in (20, 34):
        if met:
            refuse_missed(gate_results(gates, order, record(step, value)))
        else:
            with pytest.raises(GateNotMet, match=rf"recall@10 is {value:.4f}"):
                refuse_missed(gate_results(gates, order, record(step, value)))
