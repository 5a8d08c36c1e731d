"""A step against the whole bank: the same numbers however it is cut, and honest about bad data."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.kit.small_training import (
    BANK,
    DOCUMENTS,
    MLP,
    POSITIVES,
    QUERIES,
    World,
    open_small,
)
from torch import Tensor

from ttf.config.loss_schema import NegativesConfig
from ttf.contracts import Precision
from ttf.data.dataset import Dataset
from ttf.data.loader import StepHead, head_of
from ttf.errors import BadData
from ttf.training.loss.bank_blocks import HalfBlocks, StoredBlocks
from ttf.training.loss.whole_bank import FullBank
from ttf.training.step import StepResult

BF16 = Precision(name="bf16", reason="test")


class Whole(World):
    """The same parts, with every document as a negative."""

    def __init__(self, data: Dataset, *, precision: Precision | None = None, **more: Any) -> None:
        super().__init__(data, memory_bank=0, mined=0, **more)
        full_bank = FullBank(self.documents, NegativesConfig(), (1, 10, 500))
        self.stepper.gradients = dataclasses.replace(
            self.stepper.gradients,
            full_bank=full_bank,
            precision=precision or self.stepper.gradients.precision,
        )

    def head(self, step: int) -> StepHead:
        return head_of(step, self.data.train, self.order, self.documents.read, None)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dataset]:
    with open_small(tmp_path_factory.mktemp("world")) as opened:
        yield opened


def trained(data: Dataset, **settings: Any) -> tuple[list[StepResult], dict[str, Tensor]]:
    made = Whole(data, **settings)
    return made.run(3), made.weights()


def reference(made: Whole, step: int) -> tuple[float, list[int], list[int]]:
    """Loss, ranks and suspects by definition, with nothing shared with the code under test."""
    head, model = made.head(step), made.model.eval()
    with torch.no_grad():
        docs = model.encode_documents(torch.from_numpy(BANK)).double()
        rows = made.data.train.keep[head.rows]
        scores = (model.encode_queries(torch.from_numpy(QUERIES[rows])).double() @ docs.T).numpy()
    losses, ranks, suspects = [], [], []
    for row, target in enumerate(head.targets.tolist()):
        others = sorted(set(range(DOCUMENTS)) - set(POSITIVES[rows[row]].tolist()))
        own = scores[row, target]
        logits = np.append(scores[row, others], own) / 0.05
        losses.append(np.log(np.exp(logits - logits.max()).sum()) + logits.max() - own / 0.05)
        ranks.append(int((scores[row, others] > own).sum()))
        suspects.append(int((scores[row, others] >= own - 0.05 * abs(own)).sum()))
    return float(np.mean(losses)), ranks, suspects


def test_a_step_s_loss_and_metrics_are_those_of_their_definition(data: Dataset) -> None:
    made = Whole(data, query=MLP, micro_batch=8)
    for step in range(4):
        loss, ranks, suspects = reference(made, step)
        told = made.step(step)
        assert told.loss == pytest.approx(loss, abs=1e-5)
        assert told.extra["train_recall@1"] == pytest.approx(np.mean(np.array(ranks) < 1))
        assert told.extra["train_recall@10"] == pytest.approx(np.mean(np.array(ranks) < 10))
        assert told.extra["above_positive"] == pytest.approx(np.mean(suspects))
        assert set(told.extra) == {"train_recall@1", "train_recall@10", "above_positive"}


@pytest.mark.parametrize("grad_cache", [False, True], ids=["kept graphs", "cached"])
@pytest.mark.parametrize("micro_batch", [16, 4])
@pytest.mark.parametrize("learned", [False, True])
def test_how_a_step_is_cut_changes_its_numbers_by_rounding_only(
    data: Dataset, grad_cache: bool, micro_batch: int, learned: bool
) -> None:
    settings = {"query": MLP, "loss": {"learn_temperature": learned}}
    whole, weights = trained(data, **settings)
    cut, others = trained(data, **settings, grad_cache=grad_cache, micro_batch=micro_batch)
    for one, other in zip(whole, cut, strict=True):
        assert other.loss == pytest.approx(one.loss, rel=1e-5)
        assert other.grad_norm == pytest.approx(one.grad_norm, rel=1e-5)
    for name, value in weights.items():
        assert torch.allclose(value, others[name], atol=1e-5), name


def test_dropout_is_that_of_its_place_whether_graphs_are_kept_or_not(data: Dataset) -> None:
    tower = MLP | {"dropout": 0.5}
    kept, _ = trained(data, query=tower, micro_batch=8)
    cached, _ = trained(data, query=tower, micro_batch=8, grad_cache=True)
    assert [r.loss for r in kept] == pytest.approx([r.loss for r in cached], rel=1e-5)


@pytest.mark.parametrize("precision", [None, BF16], ids=["fp32", "bf16"])
@pytest.mark.parametrize("grad_cache", [False, True], ids=["kept graphs", "cached"])
def test_the_same_seed_gives_the_same_bits(
    data: Dataset, precision: Precision | None, grad_cache: bool
) -> None:
    settings: dict[str, Any] = {"query": MLP | {"dropout": 0.3}, "micro_batch": 8}
    settings |= {"precision": precision, "grad_cache": grad_cache}
    first, weights = trained(data, **settings)
    again, others = trained(data, **settings)
    assert first == again
    assert all(torch.equal(value, others[name]) for name, value in weights.items())


def test_half_precision_changes_losses_a_little(data: Dataset) -> None:
    exact, _ = trained(data, query=MLP)
    half, _ = trained(data, query=MLP, precision=BF16)
    assert [r.loss for r in half] == pytest.approx([r.loss for r in exact], rel=0.02)
    assert [r.loss for r in half] != [r.loss for r in exact]


def test_training_lowers_the_loss_and_lifts_the_recall(data: Dataset) -> None:
    told = Whole(data, query=MLP).run(40)
    assert np.mean([r.loss for r in told[-5:]]) < np.mean([r.loss for r in told[:5]]) - 0.5
    assert told[-1].extra["train_recall@10"] > told[0].extra["train_recall@10"]


def test_a_long_pass_gives_signs_of_life(data: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ttf.training.loss.bank_blocks.BLOCK_ROWS", 7)
    made = Whole(data)
    before = made.stepper.gradients.flight._sequence
    made.step(0)
    assert made.stepper.gradients.flight._sequence - before > DOCUMENTS // 7


def test_a_bank_cut_in_blocks_gives_the_same_step(
    data: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, _ = trained(data)
    monkeypatch.setattr("ttf.training.loss.bank_blocks.BLOCK_ROWS", 7)
    cut, _ = trained(data)
    for one, other in zip(whole, cut, strict=True):
        assert other.loss == pytest.approx(one.loss, rel=1e-5)
        assert other.extra == one.extra


# --- what must not happen ------------------------------------------------------------------


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("precision", [None, BF16], ids=["fp32", "bf16"])
@pytest.mark.parametrize("similarity", ["cosine", "dot"])
def test_a_document_that_is_not_finite_is_bad_data_by_name(
    tmp_path: Path, value: float, precision: Precision | None, similarity: str
) -> None:
    bank = BANK.copy()
    bank[41, 2] = value
    with open_small(tmp_path, bank=bank) as data:
        made = Whole(data, precision=precision, loss={"similarity": similarity})
        before = made.weights()
        with pytest.raises(BadData, match=r"vectors\[41\] in .*bank.npz is not finite"):
            made.step(0)
        assert all(torch.equal(value, made.weights()[name]) for name, value in before.items())


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("grad_cache", [False, True])
def test_a_query_that_is_not_finite_is_bad_data_by_name(
    tmp_path: Path, value: float, grad_cache: bool
) -> None:
    with open_small(tmp_path) as good:
        row = int(Whole(good).head(0).rows[5])
    queries = QUERIES.copy()
    queries[row, 2] = value
    with open_small(tmp_path, queries=queries) as data:
        made = Whole(data, micro_batch=8, grad_cache=grad_cache)
        with pytest.raises(BadData, match=rf"X_train\[{row}\].*not finite"):
            made.step(0)


# --- blocks --------------------------------------------------------------------------------


def test_blocks_are_the_bank_at_unit_length_in_every_pass(data: Dataset) -> None:
    made = Whole(data)
    blocks = StoredBlocks(made.documents.source, made.documents.raise_if_inputs_not_finite)
    wanted = made.documents.vectors(np.arange(DOCUMENTS))
    for _ in range(2):
        parts = [block.clone() for _, block in blocks(torch.device("cpu"))]
        assert torch.equal(torch.cat(parts), wanted)


def test_a_row_of_zeros_and_rows_of_length_one_are_taken_as_they_are(tmp_path: Path) -> None:
    bank = BANK / np.linalg.norm(BANK, axis=1, keepdims=True)
    bank[3] = 0
    with open_small(tmp_path, bank=bank) as data:
        made = Whole(data)
        blocks = StoredBlocks(made.documents.source, made.documents.raise_if_inputs_not_finite)
        for _ in range(2):
            (block,) = [block for _, block in blocks(torch.device("cpu"))]
            assert np.allclose(block.numpy(), bank, atol=1e-6)
            assert not block[3].any()


def test_a_kept_copy_in_bfloat16_is_the_same_as_one_made_while_reading(
    data: Dataset, tmp_path: Path
) -> None:
    source = Whole(data).documents.source
    said: list[str] = []
    blame = Whole(data).documents.raise_if_inputs_not_finite
    for cache in (tmp_path, tmp_path, None):
        blocks = HalfBlocks(source, blame, cache, said.append, lambda: None)
        for _ in range(2):
            parts = [block.clone() for _, block in blocks(torch.device("cpu"))]
            whole = torch.cat(parts)
            assert whole.dtype == torch.bfloat16
            assert torch.equal(whole, torch.from_numpy(source.read(0, DOCUMENTS)).bfloat16())
    assert len(said) == 1 and "copy" in said[0], "it is made once"
