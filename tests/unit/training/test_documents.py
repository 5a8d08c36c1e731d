"""Documents and query vectors as the towers see them: read, encoded, streamed, evaluated."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.kit.small_training import (
    BANK,
    DOCUMENTS,
    FP32,
    IDENTITY,
    LINEAR,
    MLP,
    POSITIVES,
    QUERIES,
    World,
    open_small,
)

from ttf.contracts import Precision
from ttf.data.dataset import Dataset
from ttf.data.sources import open_ref
from ttf.errors import BadData, NumericFailure
from ttf.training.encoded_queries import encode_split
from ttf.training.evaluation import evaluate, metrics_from_ranks, positive_scores

ROWS = np.arange(DOCUMENTS, dtype=np.int64)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dataset]:
    with open_small(tmp_path_factory.mktemp("world")) as opened:
        yield opened


def streamed(made: World) -> torch.Tensor:
    parts = list(made.documents.blocks())
    assert [first for first, _ in parts] == list(range(0, DOCUMENTS, made.documents.block_rows))
    return torch.cat([block for _, block in parts])


def unit(rows: np.ndarray[tuple[int, ...], np.dtype[np.float32]]) -> torch.Tensor:
    return torch.nn.functional.normalize(torch.from_numpy(rows.copy()), dim=-1)


def test_fixed_documents_are_rows_of_the_bank(data: Dataset) -> None:
    cosine, dot = World(data), World(data, loss={"similarity": "dot"})
    assert cosine.documents.fixed
    assert torch.allclose(streamed(cosine), unit(BANK), atol=1e-6)
    assert torch.equal(streamed(dot), torch.from_numpy(BANK))


@pytest.mark.parametrize("doc", [IDENTITY, LINEAR, MLP], ids=lambda doc: doc["name"])
@pytest.mark.parametrize("block_rows", [7, 64])
def test_blocks_are_the_bank_read_and_encoded(
    data: Dataset, doc: dict[str, object], block_rows: int
) -> None:
    made = World(data, doc=doc)
    made.run(2)  # leaves the model in training mode, with weights that moved
    made.documents.block_rows = block_rows
    found = streamed(made)
    made.model.eval()
    with torch.no_grad():
        wanted = made.documents.encode(made.documents.read(ROWS))
    assert torch.allclose(found, wanted, atol=1e-6)
    assert torch.allclose(made.documents.vectors(ROWS[::-1].copy()), wanted.flip(0), atol=1e-6)


def test_a_linear_tower_starts_as_the_identity_tower(data: Dataset) -> None:
    first, second = World(data, doc=LINEAR), World(data, doc=IDENTITY)
    assert not first.documents.fixed
    assert torch.allclose(streamed(first), streamed(second), atol=1e-6)


def test_dropout_is_off_where_documents_are_streamed(data: Dataset) -> None:
    made = World(data, doc=MLP | {"dropout": 0.9})
    made.model.train()
    assert torch.equal(streamed(made), streamed(made))


@pytest.mark.parametrize("doc", [IDENTITY, LINEAR], ids=lambda doc: doc["name"])
def test_another_process_opens_the_same_vectors(
    data: Dataset, tmp_path: Path, doc: dict[str, object]
) -> None:
    made = World(data, doc=doc)
    if doc is LINEAR:
        made.run(2)
    with open_ref(made.documents.reference(tmp_path)) as opened:
        found = torch.from_numpy(opened.source.read(0, DOCUMENTS).copy())
    assert torch.equal(found, streamed(made))


@pytest.mark.parametrize("doc", [IDENTITY, LINEAR], ids=lambda doc: doc["name"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_document_that_is_not_finite_is_named(
    tmp_path: Path, doc: dict[str, object], value: float
) -> None:
    bank = BANK.copy()
    bank[41, 3] = value
    with open_small(tmp_path, bank=bank) as data, pytest.raises(BadData) as caught:
        streamed(World(data, doc=doc))
    assert "vectors[41]" in str(caught.value)
    assert "bank.npz" in str(caught.value)


def test_a_diverged_document_tower_is_not_blamed_on_the_data(data: Dataset) -> None:
    made = World(data, doc=LINEAR)
    with torch.no_grad():
        next(made.model.doc.parameters()).fill_(torch.inf)
    with pytest.raises(NumericFailure, match=r"document tower .* vectors\[0\]"):
        streamed(made)


def test_finite_vectors_may_be_as_large_as_they_like(tmp_path: Path) -> None:
    bank = np.full((DOCUMENTS, 6), 3e38, np.float32)
    with open_small(tmp_path, bank=bank) as data:
        found = streamed(World(data, loss={"similarity": "dot"}))
    assert torch.equal(found, torch.from_numpy(bank))


# --- queries -------------------------------------------------------------------------------


@pytest.mark.parametrize("micro_batch", [1, 7, 100])
def test_queries_are_encoded_in_eval_mode_however_they_are_cut(
    data: Dataset, micro_batch: int
) -> None:
    made = World(data, query=MLP | {"dropout": 0.9})
    made.model.train()
    rows = np.array([5, 3, 77, 3, 0, 12, 9, 40], np.int64)
    seen: list[tuple[int, int]] = []
    found = encode_split(
        made.model,
        data.train,
        rows,
        made.policy,
        FP32,
        micro_batch,
        progress=lambda done, of: seen.append((done, of)),
    )
    made.model.eval()
    with torch.no_grad():
        wanted = made.model.encode_queries(torch.from_numpy(QUERIES[rows]))
    assert np.allclose(found, wanted.numpy(), atol=1e-6)
    assert seen[-1] == (8, 8)
    out = np.empty_like(found)
    assert encode_split(made.model, data.train, rows, made.policy, FP32, micro_batch, out) is out
    assert (out == found).all()


def test_bf16_gives_float32_vectors_of_length_one(data: Dataset) -> None:
    made = World(data, query=MLP)
    rows = np.arange(20, dtype=np.int64)
    bf16 = Precision(name="bf16", reason="test")
    found = encode_split(made.model, data.train, rows, made.policy, bf16, 8)
    exact = encode_split(made.model, data.train, rows, made.policy, FP32, 8)
    assert found.dtype == np.float32
    assert np.allclose(np.linalg.norm(found, axis=1), 1, atol=1e-5)
    assert not (found == exact).all()
    assert np.abs(found - exact).max() < 0.05


def test_a_query_that_is_not_finite_is_named(tmp_path: Path) -> None:
    queries = QUERIES.copy()
    queries[11, 0] = np.nan
    with open_small(tmp_path, queries=queries) as data:
        made = World(data)
        with pytest.raises(BadData, match=r"X_val\[11\] in .*pairs\.npz is not finite"):
            encode_split(made.model, data.val, np.arange(20), made.policy, FP32, 8)


def test_a_diverged_query_tower_is_not_blamed_on_the_data(data: Dataset) -> None:
    made = World(data)
    with torch.no_grad():
        next(made.model.query.parameters()).fill_(torch.inf)
    with pytest.raises(NumericFailure, match="query tower .* val row 0"):
        encode_split(made.model, data.val, np.arange(20), made.policy, FP32, 8)


@pytest.mark.parametrize("doc", [IDENTITY, MLP], ids=lambda doc: doc["name"])
def test_an_evaluation_is_sorting_every_score(data: Dataset, doc: dict[str, object]) -> None:
    made = World(data, doc=doc)
    made.run(3)
    made.documents.block_rows = 17
    found = evaluate(made.model, data.val, made.documents, made.policy, FP32, 7, (1, 5, 60))
    with torch.no_grad():
        q = made.model.encode_queries(torch.from_numpy(QUERIES[:20]))
        scores = (q @ made.model.encode_documents(torch.from_numpy(BANK)).T).numpy()
    order = np.argsort(-scores, axis=1).argsort(axis=1)
    known = POSITIVES[:20]
    ranks = np.where(known >= 0, np.take_along_axis(order, np.maximum(known, 0), axis=1), -1)
    assert found == pytest.approx(metrics_from_ranks(ranks, (1, 5, 60)))
    assert found["recall@60"] == 1.0
    own = positive_scores(q, known, made.documents).numpy()
    there = known >= 0
    wanted = np.take_along_axis(scores, np.maximum(known, 0), axis=1)
    assert np.allclose(own[there], wanted[there], atol=1e-5)
    assert (own[~there] == -np.inf).all()
