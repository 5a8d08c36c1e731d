"""The scores of a teacher in the loss: what it computes, for which queries, however a step is cut."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from tests.kit.data_files import config
from tests.kit.small_training import (
    BANK,
    DOCUMENTS,
    IDENTITY,
    LINEAR,
    MLP,
    PAIRS,
    POSITIVES,
    QUERIES,
    SAMPLES,
    World,
    arrays,
)
from tests.unit.training.test_sharded_step import compared, made_with

from ttf.config.loss_schema import LossConfig, NegativesConfig
from ttf.data.dataset import Dataset
from ttf.data.loader import StepHead
from ttf.data.open_dataset import open_dataset
from ttf.data.teacher import Taught
from ttf.errors import ArrayMissing, BadData, ConfigError
from ttf.training.loss.teacher import goals_of
from ttf.training.loss.whole_bank import FullBank

RNG = np.random.default_rng(3)
OWN = (POSITIVES[:, :1] + RNG.integers(1, DOCUMENTS, (PAIRS, 6))) % DOCUMENTS
OWN[5, 3:] = -1
SCORES: dict[str, NDArray[Any]] = {
    "neg_train": OWN,
    "score_pos_train": RNG.normal(4, 2, POSITIVES.shape).astype(np.float32),
    "score_neg_train": RNG.normal(0, 2, OWN.shape).astype(np.float32),
}
TOWERS: dict[str, dict[str, Any]] = {
    "fixed documents": {"query": MLP, "doc": IDENTITY},
    "trainable documents": {"query": LINEAR, "doc": MLP},
}


def opened(folder: Path, *, teacher: bool = True, **changes: Any) -> Dataset:
    given = {name: a for name, a in (SCORES | changes).items() if a is not None}
    return open_dataset(config(folder, arrays() | given, {"vectors": BANK}), teacher=teacher)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dataset]:
    with opened(tmp_path_factory.mktemp("taught")) as found:
        yield found


# --- the formula ---------------------------------------------------------------------------


def plain_divergence(
    q_BD: torch.Tensor, docs_KD: torch.Tensor, scale: torch.Tensor, taught: Taught, heat: float
) -> torch.Tensor:
    """Query by query, with torch's own divergence."""
    out = []
    for query, rows, scores in zip(q_BD, taught.documents_SC, taught.scores_SC, strict=True):
        there = torch.from_numpy(np.flatnonzero(rows >= 0))
        if not len(there):
            out.append(query.sum() * 0)
            continue
        ours = (docs_KD[torch.from_numpy(rows)[there]] @ query) * scale
        goal = torch.from_numpy(scores).to(ours)[there] / heat
        out.append(
            torch.nn.functional.kl_div(ours.log_softmax(0), goal.softmax(0), reduction="sum")
        )
    return torch.stack(out)


@pytest.mark.parametrize("share", [0.3, 1.0])
@pytest.mark.parametrize("heat", [1.0, 3.0])
def test_it_is_the_divergence_of_torch_with_its_gradients(share: float, heat: float) -> None:
    rng = np.random.default_rng(1)
    rows = np.stack([rng.permutation(30)[:5] for _ in range(12)])
    rows[2, 3:] = -1
    rows[7] = -1
    taught = Taught(documents_SC=rows, scores_SC=rng.normal(0, 3, (12, 5)).astype(np.float32))
    head = StepHead(
        step=0,
        rows=np.arange(12),
        known=rows[:, :1],
        targets=rows[:, 0],
        doc_ids=np.arange(30),
        docs=np.empty((0, 0), np.float32),
        num_mined=0,
        taught=taught,
    )
    goals = goals_of(head, LossConfig(teacher=share, teacher_temperature=heat), torch.device("cpu"))
    assert goals is not None
    start = torch.from_numpy(rng.standard_normal(12))
    found = []
    for ours in (True, False):
        leaves = [
            torch.from_numpy(np.random.default_rng(2).standard_normal((n, 8))) for n in (12, 30)
        ]
        q_BD, docs_KD = (leaf.requires_grad_() for leaf in leaves)
        scale = torch.tensor(7.0, dtype=torch.float64, requires_grad=True)
        loss_B = start.clone().requires_grad_()
        if ours:
            parts = [
                goals.mixed(loss_B[a:b], q_BD[a:b], docs_KD, scale, a, b)
                for a, b in ((0, 5), (5, 12))
            ]
            mixed_B = torch.cat(parts)
        else:
            weight = torch.from_numpy(np.where(rows[:, 0] >= 0, share, 0.0))
            apart_B = plain_divergence(q_BD, docs_KD, scale, taught, heat)
            mixed_B = (1 - weight) * loss_B + weight * apart_B
        torch.autograd.backward(mixed_B.mean())
        found.append([mixed_B.detach(), q_BD.grad, docs_KD.grad, scale.grad, loss_B.grad])
    for mine, theirs in zip(*found, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-5, atol=1e-6)


@pytest.fixture
def their_losses(monkeypatch: pytest.MonkeyPatch) -> Any:
    for name in ("KMP_DUPLICATE_LIB_OK", "KMP_INIT_AT_FORK"):  # set by what it imports
        monkeypatch.setenv(name, os.environ.get(name, "FALSE"))
    return pytest.importorskip("sentence_transformers.losses")


def test_it_is_the_loss_of_sentence_transformers(their_losses: Any) -> None:
    rng = np.random.default_rng(4)
    q_BD, docs_KD = (torch.from_numpy(rng.standard_normal((n, 8))) for n in (12, 30))
    rows = np.stack([rng.permutation(30)[:4] for _ in range(12)])
    scores = rng.normal(0, 3, (12, 4)).astype(np.float32)
    heat = 2.0
    parts = [q_BD, *(docs_KD[torch.from_numpy(column)] for column in rows.T)]
    theirs = their_losses.DistillKLDivLoss(None, temperature=heat)
    wanted = theirs.compute_loss_from_embeddings(parts, torch.from_numpy(scores).double())
    head = StepHead(
        step=0,
        rows=np.arange(12),
        known=rows[:, :1],
        targets=rows[:, 0],
        doc_ids=np.arange(30),
        docs=np.empty((0, 0), np.float32),
        num_mined=0,
        taught=Taught(documents_SC=rows, scores_SC=scores),
    )
    loss = LossConfig(teacher=1.0, teacher_temperature=heat)
    goals = goals_of(head, loss, torch.device("cpu"))
    assert goals is not None
    scale = torch.tensor(1 / heat, dtype=torch.float64)
    found = goals.mixed(torch.zeros(12).double(), q_BD, docs_KD, scale, 0, 12).mean()
    assert float(found) * heat**2 == pytest.approx(float(wanted), rel=1e-6)


def test_a_student_that_scores_as_its_teacher_has_no_loss(data: Dataset) -> None:
    made = World(data, loss={"teacher": 1.0})
    head = made.head(0)
    assert head.taught is not None
    docs_KD = torch.from_numpy(BANK[head.doc_ids])
    q_SD = torch.randn(SAMPLES, BANK.shape[1], dtype=torch.float64)
    places = np.searchsorted(head.doc_ids, np.maximum(head.taught.documents_SC, 0))
    same = (docs_KD.double()[torch.from_numpy(places)] @ q_SD[:, :, None]).squeeze(2).numpy() * 20
    exact = dataclasses.replace(head.taught, scores_SC=same + 5)
    goals = goals_of(
        dataclasses.replace(head, taught=exact), LossConfig(teacher=1.0), torch.device("cpu")
    )
    assert goals is not None
    scale = torch.tensor(20.0, dtype=torch.float64)
    apart_S = goals.mixed(torch.zeros(SAMPLES).double(), q_SD, docs_KD, scale, 0, SAMPLES)
    assert float(apart_S.abs().max()) < 1e-6


# --- which documents count -------------------------------------------------------------------


def test_it_looks_at_the_target_and_the_drawn_negatives_that_have_scores(tmp_path: Path) -> None:
    scores = SCORES["score_neg_train"].copy()
    scores[:, ::2] = np.nan
    with opened(tmp_path, score_neg_train=scores) as data:
        head = World(data).head(0)
        assert head.taught is not None
        for row, target, documents, told in zip(
            data.train.keep[head.rows],
            head.targets,
            head.taught.documents_SC,
            head.taught.scores_SC,
            strict=True,
        ):
            if (documents < 0).all():
                continue
            assert documents[0] == target
            column = int(np.flatnonzero(POSITIVES[row] == target)[0])
            assert told[0] == SCORES["score_pos_train"][row, column]
            for document, score in zip(documents[1:], told[1:], strict=True):
                if document >= 0:
                    at = np.flatnonzero((OWN[row] == document) & (scores[row] == score))
                    assert len(at) and document not in POSITIVES[row]
            assert set(documents[documents >= 0]) <= set(head.doc_ids)
        assert (head.taught.documents_SC[:, 1:] >= 0).any()


def test_queries_without_scores_have_the_contrastive_loss_alone(tmp_path: Path) -> None:
    unscored = np.arange(PAIRS) % 2 == 0
    scores = SCORES["score_neg_train"].copy()
    scores[unscored] = np.nan
    with opened(tmp_path, score_neg_train=scores) as data:
        made = {w: losses_of(World(data, loss={"teacher": w})) for w in (0.0, 1.0)}
        plain = unscored[data.train.keep[World(data).head(0).rows]]
        assert torch.equal(made[0.0][plain], made[1.0][plain])
        assert not torch.isclose(made[0.0][~plain], made[1.0][~plain]).any()


def losses_of(made: World) -> torch.Tensor:
    head = made.head(0)
    if not made.stepper.gradients.config.loss.teacher:
        head = dataclasses.replace(head, taught=None)
    return made.stepper.gradients(head, made.micro_batches(head)).losses_S


# --- a whole step --------------------------------------------------------------------------------


@pytest.mark.parametrize("towers", TOWERS)
@pytest.mark.parametrize("share", [0.25, 1.0])
def test_a_step_has_the_loss_of_the_definition(data: Dataset, towers: str, share: float) -> None:
    made = World(data, **TOWERS[towers], loss={"teacher": share}, micro_batch=8)
    head = made.head(0)
    assert head.taught is not None
    with torch.no_grad():
        docs = made.model.encode_documents(torch.from_numpy(BANK)).double()
        q_SD = made.model.encode_queries(torch.from_numpy(QUERIES[data.train.keep[head.rows]]))
    scale = made.model.temperature.scale().double()
    apart = plain_divergence(q_SD.double(), docs, scale, head.taught, 1.0)
    contrastive = losses_of(World(data, **TOWERS[towers])).double()
    wanted = (1 - share) * contrastive + share * apart
    assert made.step(0).loss == pytest.approx(float(wanted.mean()), abs=1e-5)


@pytest.mark.parametrize("towers", TOWERS)
@pytest.mark.parametrize("grad_cache", [False, True], ids=["plain", "cached"])
@pytest.mark.parametrize("micro_batch", [16, 4])
def test_however_a_step_is_cut_it_is_the_same(
    data: Dataset, towers: str, grad_cache: bool, micro_batch: int
) -> None:
    settings: dict[str, Any] = TOWERS[towers] | {"loss": {"teacher": 0.5}}
    ends = []
    cuts: list[dict[str, Any]] = [{}, {"grad_cache": grad_cache, "micro_batch": micro_batch}]
    for cut in cuts:
        made = World(data, **settings, **cut)
        told = [number for r in made.run(3) for number in (r.loss, r.grad_norm)]
        ends.append((told, made.weights()))
    assert ends[0][0] == pytest.approx(ends[1][0], rel=1e-5, abs=1e-5)
    for name, value in ends[0][1].items():
        assert torch.allclose(value, ends[1][1][name], atol=1e-5), name


def test_beside_the_whole_bank_it_is_mixed_in_as_well(data: Dataset) -> None:
    found = {}
    for share in (0.0, 0.5, 1.0):
        made = World(data, query=MLP, memory_bank=0, loss={"teacher": share, "negatives": "bank"})
        gradients = dataclasses.replace(
            made.stepper.gradients, full_bank=FullBank(made.documents, NegativesConfig(), (1,))
        )
        made.stepper.gradients = gradients
        found[share] = losses_of(made)
    assert torch.allclose(found[0.5], (found[0.0] + found[1.0]) / 2, atol=1e-5)
    assert not torch.allclose(found[0.0], found[1.0])


@pytest.mark.parametrize(
    "settings",
    [{}, {"doc": MLP}, {"grad_cache": True, "doc": MLP}, {"whole bank": True}],
    ids=["stored documents", "trained documents", "grad_cache", "whole bank"],
)
def test_by_shards_it_is_the_same(data: Dataset, settings: dict[str, Any]) -> None:
    beside_bank = "whole bank" in settings
    rest = {"memory_bank": 0, "mined": 0} if beside_bank else settings
    both = [made_with(data, size, loss={"teacher": 0.5}, **rest) for size in (32, 4)]
    for made in both if beside_bank else ():
        bank = FullBank(made.documents, NegativesConfig(), (1,))
        made.stepper.gradients = dataclasses.replace(made.stepper.gradients, full_bank=bank)
    compared(*both)


def test_a_learned_temperature_gets_its_gradient(data: Dataset) -> None:
    made = World(data, loss={"teacher": 1.0, "learn_temperature": True})
    before = float(made.model.temperature.scale().detach())
    made.step(0)
    assert float(made.model.temperature.scale().detach()) != before


# --- the file ----------------------------------------------------------------------------------------


def test_scores_that_are_not_used_change_nothing_and_are_told(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    without: dict[str, Any] = {"score_pos_train": None, "score_neg_train": None}
    with (
        opened(tmp_path / "a", teacher=False) as unused,
        opened(tmp_path / "b", teacher=False, **without) as plain,
    ):
        assert unused.train.teacher is None
        assert World(unused).head(0).taught is None
        assert [note for note in unused.notes if "--set loss.teacher=0.5" in note]
        assert not [note for note in plain.notes if "teacher" in note]
        ends = [World(data, query=MLP).run(2) for data in (unused, plain)]
        assert ends[0] == ends[1]


def test_other_scores_are_other_data(data: Dataset, tmp_path: Path) -> None:
    scores = SCORES["score_neg_train"].copy()
    scores[3, 1] += 1
    with opened(tmp_path, score_neg_train=scores) as other:
        assert other.fingerprint != data.fingerprint


@pytest.mark.parametrize(
    ("changes", "error", "said"),
    [
        ({"score_pos_train": None}, ArrayMissing, "has no score_pos_train"),
        ({"score_neg_train": None}, ArrayMissing, "has no score_neg_train"),
        ({"neg_train": None}, ArrayMissing, "has no neg_train"),
        (
            {"score_neg_train": SCORES["score_neg_train"][:, :3]},
            BadData,
            r"must be numbers of the shape \(80, 6\), like neg_train",
        ),
        (
            {"score_pos_train": SCORES["score_pos_train"] * np.inf},
            BadData,
            r"score_pos_train\[0, 0\] in .* is -?inf",
        ),
        ({"score_neg_train": SCORES["score_neg_train"] * np.nan}, BadData, "No training pair"),
    ],
    ids=["no positives", "no negatives", "no own negatives", "shape", "infinite", "all missing"],
)
def test_scores_that_do_not_fit_are_refused(
    changes: dict[str, Any], error: type[Exception], said: str, tmp_path: Path
) -> None:
    with pytest.raises(error, match=said):
        opened(tmp_path, **changes)


def test_a_teacher_without_own_negatives_is_refused(tmp_path: Path) -> None:
    given = config(tmp_path, arrays() | SCORES, {"vectors": BANK})
    with pytest.raises(ConfigError, match=r"needs your own negatives"):
        open_dataset(given.model_copy(update={"own_negatives": 0}), teacher=True)
