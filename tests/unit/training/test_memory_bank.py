"""The memory bank against the plainest model of it: an ordered dict of documents."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from numpy.typing import NDArray

from ttf.training.loss.infonce import Trained, info_nce
from ttf.training.memory_bank import COLUMNS, Columns, MemoryBank

DIM, DOCUMENTS, ROOM = 4, 24, 10
CPU = torch.device("cpu")


class Naive:
    """Slots that are written in turn; a document that is there stays where it is."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.queue: list[int] = []
        self.vectors: dict[int, torch.Tensor] = {}

    def commit(self, ids: list[int], vectors: torch.Tensor, *, refresh: bool) -> None:
        before = set(self.queue)
        for place, document in enumerate(ids):
            if document in before:
                if refresh and document in self.vectors:
                    self.vectors[document] = vectors[place].clone()
                continue
            self.queue.append(document)
            self.vectors[document] = vectors[place].clone()
            if len(self.queue) > self.capacity:
                del self.vectors[self.queue.pop(0)]


def make(capacity: int, **more: Any) -> MemoryBank:
    return MemoryBank(
        capacity=capacity, num_documents=DOCUMENTS, dim=DIM, room=ROOM, device=CPU, **more
    )


def held(bank: MemoryBank) -> dict[int, torch.Tensor]:
    return {int(bank.ids[slot]): bank.vectors()[slot] for slot in range(bank.filled)}


def oldest_first(bank: MemoryBank) -> list[int]:
    slots = (bank.position + np.arange(bank.capacity)) % bank.capacity
    return [int(i) for i in bank.ids[slots] if i >= 0]


def random_ids(rng: np.random.Generator) -> NDArray[np.int64]:
    return np.sort(rng.choice(DOCUMENTS, int(rng.integers(1, ROOM + 1)), replace=False))


@given(seed=st.integers(0, 10**6), capacity=st.integers(1, 15), refresh=st.booleans())
@settings(max_examples=150, deadline=None)
def test_it_holds_the_last_distinct_documents(seed: int, capacity: int, refresh: bool) -> None:
    rng = np.random.default_rng(seed)
    bank, naive = make(capacity), Naive(capacity)
    for _ in range(12):
        ids = random_ids(rng)
        vectors = torch.from_numpy(rng.standard_normal((len(ids), DIM)).astype(np.float32))
        bank.commit(ids, vectors, refresh=refresh)
        naive.commit(ids.tolist(), vectors, refresh=refresh)
        assert oldest_first(bank) == naive.queue
        assert bank.filled == len(naive.queue)
        found = held(bank)
        assert all(torch.equal(found[document], naive.vectors[document]) for document in found)


@given(seed=st.integers(0, 10**6), capacity=st.integers(1, 15))
@settings(max_examples=60, deadline=None)
def test_a_restored_bank_goes_on_as_the_original(seed: int, capacity: int) -> None:
    rng = np.random.default_rng(seed)
    bank, other = make(capacity), make(capacity)
    for turn in range(8):
        ids = random_ids(rng)
        vectors = torch.from_numpy(rng.standard_normal((len(ids), DIM)).astype(np.float32))
        bank.commit(ids, vectors, refresh=True)
        if turn % 3 == 0:  # whatever the other held before is gone
            saved = bank.ids[: bank.filled].copy(), bank.position, bank.vectors().clone()
            other.restore(*saved)
        else:
            other.commit(ids, vectors, refresh=True)
        assert other.position == bank.position
        assert (other.ids == bank.ids).all()
        assert torch.equal(other.vectors(), bank.vectors())


@pytest.mark.parametrize(
    ("ids", "position"), [([1, 2], -5), ([1, 2], 3), ([1, 2], 5), ([1, 1], 2), ([-1, 2], 2)]
)
def test_a_state_that_no_bank_had_is_not_restored(ids: list[int], position: int) -> None:
    with pytest.raises(ValueError, match=r"bank_position|distinct"):
        make(5).restore(np.array(ids), position, torch.zeros(len(ids), DIM))


def test_without_capacity_it_is_always_empty() -> None:
    bank = make(0)
    bank.commit(np.array([1, 2]), torch.ones(2, DIM), refresh=False)
    assert bank.filled == 0
    columns = bank.columns(
        np.array([1]), torch.ones(1, DIM), np.array([1]), np.array([[1]]), use_bank=True
    )
    assert columns.cand_ND.shape == (COLUMNS, DIM)
    assert columns.dead_K is not None
    assert columns.dead_K.tolist() == list(range(1, COLUMNS))


MODES = {
    "as they are": {"constant": False, "trainable": False},
    "constant shape": {"constant": True, "trainable": False},
    "trainable documents": {"constant": False, "trainable": True},
    "trainable, constant shape": {"constant": True, "trainable": True},
}


def step(rng: np.random.Generator) -> tuple[NDArray[np.int64], ...]:
    """Documents of a step, a target among them and known positives anywhere, for each query."""
    doc_ids = random_ids(rng)
    targets = rng.choice(doc_ids, 7)
    known = rng.integers(-1, DOCUMENTS, (7, 3))
    known[:, 0] = targets
    return doc_ids, targets, known


def columns_of(bank: MemoryBank, mode: str, docs: torch.Tensor, *rest: Any, use: bool) -> Columns:
    given = docs.clone().requires_grad_(MODES[mode]["trainable"])
    doc_ids, targets, known = rest
    return bank.columns(doc_ids, given, targets, known, use_bank=use)


def naive_loss(
    q: torch.Tensor,
    offered: dict[int, torch.Tensor],
    targets: NDArray[np.int64],
    known: NDArray[np.int64],
) -> torch.Tensor:
    losses = []
    for row, target in enumerate(targets):
        masked = set(known[row].tolist()) - {int(target)}
        ids = [i for i in offered if i not in masked]
        logits = torch.stack([q[row] @ offered[i] for i in ids]) / 0.1
        losses.append(torch.logsumexp(logits, 0) - logits[ids.index(int(target))])
    return torch.stack(losses)


@pytest.mark.parametrize("mode", MODES)
@given(seed=st.integers(0, 10**6), commits=st.integers(0, 4), use=st.booleans())
@settings(max_examples=60, deadline=None)
def test_the_loss_counts_every_document_of_step_and_bank_once(
    mode: str, seed: int, commits: int, use: bool
) -> None:
    rng = np.random.default_rng(seed)
    bank = make(12, constant_shape=MODES[mode]["constant"])
    for _ in range(commits):
        ids = random_ids(rng)
        bank.commit(ids, torch.randn(len(ids), DIM), refresh=True)
    doc_ids, targets, known = step(rng)
    docs, q = torch.randn(len(doc_ids), DIM), torch.randn(len(targets), DIM)
    columns = columns_of(bank, mode, docs, doc_ids, targets, known, use=use)

    offered = held(bank) if use else {}
    offered |= {int(i): docs[place] for place, i in enumerate(doc_ids)}
    found = info_nce(
        q,
        columns.trained or columns.cand_ND,
        columns.target_S,
        scale=10.0,
        known_BP=columns.known_SP,
        dead_K=columns.dead_K,
    )
    assert torch.allclose(found, naive_loss(q, offered, targets, known), atol=1e-4)


@pytest.mark.parametrize("use", [True, False])
def test_a_constant_shape_stays_constant_while_the_bank_fills(use: bool) -> None:
    rng = np.random.default_rng(0)
    bank = make(12, constant_shape=True)
    shapes = set()
    for _ in range(6):
        doc_ids, targets, known = step(rng)
        docs = torch.randn(len(doc_ids), DIM)
        columns = bank.columns(doc_ids, docs, targets, known, use_bank=use)
        shapes.add(tuple(columns.cand_ND.shape))
        bank.commit(doc_ids, docs, refresh=False)
    assert shapes == {(ROOM + 12, DIM)}


@pytest.mark.parametrize("mode", ["as they are", "trainable documents"])
def test_the_number_of_candidates_takes_few_values(mode: str) -> None:
    """Each shape of a product costs memory for good."""
    capacity, rng = 3 * COLUMNS, np.random.default_rng(0)
    bank = MemoryBank(
        capacity=capacity, num_documents=4 * capacity, dim=DIM, room=2 * COLUMNS, device=CPU
    )
    sizes, most = [], 0
    for _ in range(40):
        count = int(rng.integers(COLUMNS, 2 * COLUMNS))
        doc_ids = np.sort(rng.choice(4 * capacity, count, replace=False))
        docs = torch.randn(count, DIM)
        known = doc_ids[:, None]
        columns = columns_of(bank, mode, docs, doc_ids, doc_ids, known, use=True)
        sizes.append(len(columns.cand_ND))
        most = max(most, count + bank.filled)
        bank.commit(doc_ids, docs, refresh=True)
    assert bank.filled == capacity
    assert {size % COLUMNS for size in sizes} == {0}
    assert most <= max(sizes) < most + COLUMNS


def test_trained_documents_have_few_shapes_while_the_bank_fills() -> None:
    capacity, doc_ids = 80 * COLUMNS, np.arange(8)
    bank = MemoryBank(
        capacity=capacity, num_documents=capacity + 8, dim=2, room=8, device=CPU, trainable=True
    )
    docs = torch.ones(8, 2, requires_grad=True)
    counts, shapes = set(), set()
    for start in range(8, capacity + 8, COLUMNS):
        columns = bank.columns(doc_ids, docs, doc_ids, doc_ids[:, None], use_bank=True)
        assert columns.trained is not None
        assert columns.trained.count == len(columns.cand_ND) <= len(columns.trained.wide_WD)
        assert len(columns.trained.wide_WD) <= columns.trained.count * 9 / 8
        counts.add(columns.trained.count)
        shapes.add(len(columns.trained.wide_WD))
        bank.commit(np.arange(start, start + COLUMNS), torch.ones(COLUMNS, 2), refresh=True)
    assert len(counts) == 80 and len(shapes) < 40


@pytest.mark.parametrize("trainable", [False, True])
def test_the_candidates_are_no_copy_of_the_bank(trainable: bool) -> None:
    """A copy that grows with the bank would find no room in the heap where the last one was."""
    bank = make(12)
    bank.commit(np.arange(8), torch.randn(8, DIM), refresh=False)
    doc_ids = np.array([2, 20])
    docs = torch.randn(2, DIM, requires_grad=trainable)
    columns = bank.columns(doc_ids, docs, doc_ids, doc_ids[:, None], use_bank=True)
    assert columns.cand_ND.shape == (COLUMNS, DIM)
    assert columns.cand_ND[2:].data_ptr() == bank.vectors().data_ptr()
    assert (columns.trained is not None) == trainable


@pytest.mark.parametrize("symmetric", [False, True])
def test_gradients_reach_the_documents_of_the_step_alone(symmetric: bool) -> None:
    bank = make(12)
    bank.commit(np.arange(8), torch.randn(8, DIM), refresh=False)
    docs, q = torch.randn(2, DIM, requires_grad=True), torch.randn(2, DIM, requires_grad=True)
    doc_ids = np.array([2, 20])
    columns = bank.columns(doc_ids, docs, doc_ids, doc_ids[:, None], use_bank=True)

    def gradients(candidates: torch.Tensor | Trained) -> tuple[torch.Tensor, ...]:
        loss_B = info_nce(
            q,
            candidates,
            columns.target_S,
            scale=10.0,
            known_BP=columns.known_SP,
            dead_K=columns.dead_K,
            symmetric=symmetric,
        )
        return torch.autograd.grad(loss_B.sum(), [q, docs])

    # Bit by bit those of candidates that are one matrix with a graph.
    joined = torch.cat([docs, columns.cand_ND[2:]])
    assert columns.trained is not None
    for one, other in zip(gradients(columns.trained), gradients(joined), strict=True):
        assert torch.equal(one, other)
    assert not bank.vectors().requires_grad
