"""The loss over a whole bank: the dense loss with every document as a candidate, in one pass."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings, strategies as st
from numpy.typing import NDArray
from torch import Tensor

from ttf.training.loss.infonce import Block, Excluded, _contrast, loss_in_one_pass
from ttf.training.loss.rank_counts import GROUP, RankCounter, RankCounts


def blocks_of(docs: Tensor, size: int) -> Iterator[Block]:
    for start in range(0, len(docs), size):
        yield start, docs[start : start + size]


class Case:
    """Queries with several positives, some of them shared."""

    def __init__(
        self,
        *,
        queries: int,
        documents: int,
        dim: int = 8,
        seed: int = 0,
        length: float = 1.0,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        rng = np.random.default_rng(seed)
        self.q = self._unit(rng, queries, dim, dtype) * length
        self.docs = self._unit(rng, documents, dim, dtype)
        self.known = rng.integers(-1, documents, (queries, 3))
        self.target = np.where(
            rng.random(queries) < 0.5, self.known.max(1), rng.integers(0, documents, queries)
        )
        self.target = np.maximum(self.target, 0)

    @staticmethod
    def _unit(rng: np.random.Generator, rows: int, dim: int, dtype: torch.dtype) -> Tensor:
        return F.normalize(torch.from_numpy(rng.standard_normal((rows, dim))), dim=1).to(dtype)

    def excluded(self) -> Excluded:
        return Excluded(np.concatenate([self.target[:, None], self.known], axis=1))

    def swept(self, q: Tensor, scale: Tensor, block: int, **more: Any) -> Tensor:
        target = self.docs[torch.from_numpy(self.target)]
        blocks = more.pop("blocks", None) or blocks_of(self.docs, block)
        return loss_in_one_pass(q, scale, target, blocks, self.excluded(), **more)

    def dense(self, q: Tensor, scale: Tensor) -> Tensor:
        target, known = torch.from_numpy(self.target), torch.from_numpy(self.known)
        return _contrast(q, self.docs, None, scale, target, known, None, None)

    def positives(self, row: int) -> set[int]:
        return set(self.known[row].tolist()) | {int(self.target[row])}

    def logits(self, scale: float) -> NDArray[np.float64]:
        """-inf where a document is a positive."""
        out: NDArray[np.float64] = (self.q.double() @ self.docs.double().T * scale).numpy()
        for row in range(len(out)):
            out[row, [p for p in self.positives(row) if p >= 0]] = -math.inf
        return out


def outcome(case: Case, how: str, scale: float, block: int = 64) -> list[Tensor]:
    """Loss and gradients of a weighted sum: another weight for every query."""
    q = case.q.clone().requires_grad_()
    learned = torch.tensor(scale, dtype=q.dtype, requires_grad=True)
    loss = case.dense(q, learned) if how == "dense" else case.swept(q, learned, block)
    weights = torch.linspace(0.5, 1.5, len(q), dtype=q.dtype)
    torch.autograd.backward((loss * weights).sum())
    assert q.grad is not None
    assert learned.grad is not None
    return [loss.detach(), q.grad, learned.grad]


@settings(max_examples=60, deadline=None)
@given(
    queries=st.integers(1, 20),
    documents=st.integers(1, 300),
    block=st.integers(1, 320),
    scale=st.sampled_from([1.0, 20.0, 100.0]),
    seed=st.integers(0, 10_000),
)
def test_it_equals_the_dense_loss_and_its_gradients(
    queries: int, documents: int, block: int, scale: float, seed: int
) -> None:
    case = Case(queries=queries, documents=documents, seed=seed)
    mine = outcome(case, "swept", scale, block)
    theirs = outcome(case, "dense", scale)
    torch.testing.assert_close(mine[0], theirs[0], rtol=1e-5, atol=1e-5)
    for one, other in zip(mine[1:], theirs[1:], strict=True):
        # Either way rounds logits of size `scale` to scale * 1e-7, and a gradient is a probability,
        # off by that share, times `scale`: at 100 both are up to 2e-4 away from float64.
        torch.testing.assert_close(one, other, rtol=1e-5, atol=max(1e-5, 1e-7 * scale**2))


@settings(max_examples=40, deadline=None)
@given(
    documents=st.integers(1, 200),
    block=st.integers(1, 70),
    length=st.sampled_from([1e-3, 1.0, 30.0, 1e4, 1e15]),
    seed=st.integers(0, 10_000),
)
def test_scores_of_any_size_neither_overflow_nor_vanish(
    documents: int, block: int, length: float, seed: int
) -> None:
    case = Case(queries=5, documents=documents, seed=seed, length=length, dtype=torch.float64)
    for one, other in zip(
        outcome(case, "swept", 100.0, block), outcome(case, "dense", 100.0), strict=True
    ):
        assert torch.isfinite(one).all()
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9 * max(1.0, length))


def test_large_scores_in_float32_give_a_finite_loss_and_gradient() -> None:
    case = Case(queries=6, documents=300, length=1e6)
    for value in outcome(case, "swept", 100.0):
        assert torch.isfinite(value).all()


def test_gradients_pass_gradcheck() -> None:
    case = Case(queries=4, documents=30, dtype=torch.float64)
    inputs = (case.q.requires_grad_(), torch.tensor(5.0, dtype=torch.float64, requires_grad=True))
    assert torch.autograd.gradcheck(lambda q, s: case.swept(q, s, 7), inputs)


def test_a_query_all_of_whose_other_documents_are_positives_has_loss_and_gradient_zero() -> None:
    case = Case(queries=2, documents=3)
    case.known = np.tile(np.arange(3), (2, 1))
    for value in outcome(case, "swept", 20.0, 2):
        assert torch.equal(value, torch.zeros_like(value))


def test_no_known_positives_but_the_target_is_fine() -> None:
    case = Case(queries=7, documents=50)
    case.known = np.empty((7, 0), np.int64)
    for one, other in zip(outcome(case, "swept", 20.0), outcome(case, "dense", 20.0), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)


def test_dead_documents_count_for_nobody() -> None:
    case = Case(queries=7, documents=150)
    copies = torch.cat([case.docs, case.docs[:90]])
    excluded = Excluded(
        np.concatenate([case.target[:, None], case.known], axis=1),
        np.array([*range(150, 240), -1, 150]),
    )
    target = case.docs[torch.from_numpy(case.target)]
    scale = torch.tensor(20.0)
    loss = loss_in_one_pass(case.q, scale, target, blocks_of(copies, 64), excluded)
    torch.testing.assert_close(loss, case.dense(case.q, scale))


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("where", [0, 17, 99], ids=["first", "inside", "last"])
def test_a_document_that_is_not_finite_cannot_hide_where_none_was_looked_at(
    bad: float, where: int
) -> None:
    case = Case(queries=3, documents=100)
    case.docs[where, 0] = bad
    loss = case.swept(case.q, torch.tensor(20.0), 32, checked=False)
    assert not torch.isfinite(loss).any()


def test_it_gives_the_same_bits_every_time_and_backward_can_be_had_twice() -> None:
    case = Case(queries=30, documents=500)
    first, second = outcome(case, "swept", 20.0), outcome(case, "swept", 20.0)
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
    q = case.q.requires_grad_()
    loss = case.swept(q, torch.tensor(20.0), 64).sum()
    (one,) = torch.autograd.grad(loss, q, retain_graph=True)
    (two,) = torch.autograd.grad(loss, q)
    assert torch.equal(one, two)


def test_backward_keeps_nothing_that_grows_with_the_bank() -> None:
    case = Case(queries=4, documents=2000)
    sizes: list[int] = []

    def note(tensor: Tensor) -> Tensor:
        sizes.append(tensor.numel())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda t: t):
        case.swept(case.q.requires_grad_(), torch.tensor(20.0), 64)
    assert max(sizes) == case.q.numel()


def test_bfloat16_documents_give_nearly_the_same_and_the_target_is_exact() -> None:
    case = Case(queries=64, documents=3000, dim=64)
    exact = outcome(case, "dense", 20.0)
    q = case.q.clone().requires_grad_()
    half = ((start, block.bfloat16()) for start, block in blocks_of(case.docs, 256))
    loss = case.swept(q, torch.tensor(20.0), 0, blocks=half)
    torch.autograd.backward((loss * torch.linspace(0.5, 1.5, 64)).sum())
    assert q.grad is not None
    # products come back in bfloat16: a logit of 10 is off by 0.03 at most
    assert float((loss.detach() - exact[0]).abs().max()) < 0.03
    assert float((loss.detach() - exact[0]).mean().abs()) < 1e-3
    assert float(F.cosine_similarity(q.grad, exact[1]).min()) > 0.999
    alone = Case(queries=2, documents=3)
    alone.known = np.tile(np.arange(3), (2, 1))
    halves = ((start, block.bfloat16()) for start, block in blocks_of(alone.docs, 2))
    assert not alone.swept(alone.q, torch.tensor(20.0), 0, blocks=halves).any()


# --- what the pass counts ------------------------------------------------------------------


def counted(case: Case, scale: float, block: int, margin: float, deepest: int) -> RankCounts:
    counters: list[RankCounter] = []

    def make_look(target_logit_B: Tensor) -> RankCounter:
        line_B = target_logit_B - margin * target_logit_B.abs()
        counters.append(RankCounter(target_logit_B, line_B, deepest=deepest))
        return counters[0]

    loss = case.swept(case.q, torch.tensor(scale, dtype=case.q.dtype), block, make_look=make_look)
    torch.testing.assert_close(loss, case.dense(case.q, torch.tensor(scale, dtype=case.q.dtype)))
    return counters[0].counts()


@settings(max_examples=40, deadline=None)
@given(
    documents=st.integers(1, 400),
    block=st.integers(1, 3 * GROUP),
    deepest=st.sampled_from([1, 5, 1000]),
    seed=st.integers(0, 10_000),
)
def test_ranks_and_suspects_are_those_of_a_full_sort(
    documents: int, block: int, deepest: int, seed: int
) -> None:
    case = Case(queries=6, documents=documents, seed=seed, dtype=torch.float64)
    counts = counted(case, 20.0, block, 0.1, deepest)
    logits = case.logits(20.0)
    target = (case.q * case.docs[torch.from_numpy(case.target)]).sum(1).numpy() * 20.0
    line = target - 0.1 * np.abs(target)
    ranks = np.minimum((logits > target[:, None]).sum(1), deepest)
    above = np.minimum((logits >= line[:, None]).sum(1), deepest)
    assert counts.ranks_B.tolist() == ranks.tolist()
    assert counts.above_B.tolist() == above.tolist()


def test_counting_does_not_change_the_loss_by_a_bit() -> None:
    case = Case(queries=20, documents=500)
    scale = torch.tensor(20.0)

    def make_look(target_logit_B: Tensor) -> RankCounter:
        return RankCounter(target_logit_B, target_logit_B, deepest=100)

    plain = case.swept(case.q, scale, 128)
    assert torch.equal(case.swept(case.q, scale, 128, make_look=make_look), plain)
