"""Runs whose towers train rows of a table: a recommender of items, and documents of a bank."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.kit.widely import wide

import ttf

ITEMS, GROUP, LENGTH = 300, 10, 5
CHAOS = os.environ.get("TTF_CHAOS") == "1"
# Where the trainer is killed; counted by `ttf.rundir.failpoints`.
KILLS = (
    "checkpoint.write:6:kill",
    pytest.param("table.write:40:kill", marks=wide),
    "table.fsync:3:kill",
)
MORE_KILLS = tuple(f"table.*:{number}:kill" for number in range(2, 60, 3))


@pytest.fixture(scope="module")
def sequences(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Items of one group follow one another; sequences of three to five."""
    draw = np.random.default_rng(0)

    def made(count: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        group = draw.integers(ITEMS // GROUP, size=count) * GROUP
        items = group[:, None] + draw.integers(GROUP, size=(count, LENGTH))
        items[np.arange(LENGTH) >= draw.integers(3, LENGTH + 1, size=count)[:, None]] = -1
        return items, group + draw.integers(GROUP, size=count)

    train, val = made(1500), made(200)
    path = tmp_path_factory.mktemp("items") / "sequences.npz"
    np.savez(path, seq_train=train[0], pos_train=train[1], seq_val=val[0], pos_val=val[1])
    return path


def trained(sequences: Path, out: Path, **more: Any) -> ttf.Run:
    sets = {
        "data.item_width": 16,
        "calibrate.enabled": False,
        "checkpoint.every_steps": 7,
        # For the table: 64 KB, so that most rows are on the disk.
        "memory.budget": 131_072,
        "tower.query.mlp": 8,
        **more,
    }
    return ttf.train(
        pairs=sequences,
        items=ITEMS,
        tower="embedding",
        out=out,
        epochs=3,
        batch_size=64,
        threads=1,
        sets=sets,
    )


def kept(run: Path) -> tuple[bytes, bytes]:
    """The weights and every row with its optimizer's state."""
    weights = (run / "model/model.safetensors").read_bytes()
    return weights, (run / "tables/rows/rows.bin").read_bytes()


@pytest.fixture(scope="module")
def undisturbed(sequences: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "undisturbed"
    trained(sequences, out)
    return out


def test_items_without_vectors_learn_which_follow_one_another(undisturbed: Path) -> None:
    # Ten of three hundred items are right: chance is 3%.
    assert ttf.evaluate(undisturbed)["recall@10"] > 0.8
    with ttf.EmbeddingTable(undisturbed / "tables/rows", rows=ITEMS, dim=16) as table:
        assert table.version >= 3


def test_python_searches_with_numbers_of_items_as_a_file_does(
    undisturbed: Path, sequences: Path, tmp_path: Path
) -> None:
    with np.load(sequences) as file:
        sessions = file["seq_val"][:3]
    np.savez(tmp_path / "q.npz", seq_test=sessions)
    with ttf.load(undisturbed) as model:
        by_file = model.search_file(tmp_path / "q.npz", k=5)
        for given in (sessions, [session[session >= 0] for session in sessions]):
            found = model.search(given, k=5)
            assert np.array_equal(found.ids, by_file.ids)
        documents = model.encode_documents(np.arange(ITEMS))
        scores = model.encode_queries(sessions) @ documents.T
        rows = by_file.ids.astype(np.int64)
        assert np.allclose(np.take_along_axis(scores, rows, 1), by_file.scores, atol=1e-5)
        wrongs: list[Any] = [np.zeros((3, LENGTH)), [[0, ITEMS]], [0, 1]]
        for wrong in wrongs:
            with pytest.raises(ttf.BadData):
                model.search(wrong)
        for beyond in ([ITEMS], np.zeros((2, 16), np.float32)):
            with pytest.raises(ttf.BadData, match="given documents"):
                model.encode_documents(np.asarray(beyond))


def test_a_run_of_items_is_predicted_like_any_other(sequences: Path) -> None:
    plan = ttf.plan(pairs=sequences, items=ITEMS)
    assert "seq_train" in plan.text()


@pytest.mark.parametrize("failpoint", [*KILLS[: None if CHAOS else 2], *MORE_KILLS[: 20 * CHAOS]])
def test_a_run_that_was_killed_ends_with_the_same_weights_and_rows(
    failpoint: str,
    sequences: Path,
    undisturbed: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TTF_FAILPOINT", failpoint)
    run = trained(sequences, tmp_path / "killed")
    assert run.summary["restarts"] == 1
    assert kept(tmp_path / "killed") == kept(undisturbed)


def test_each_document_of_a_bank_has_a_row_that_starts_as_nothing(tmp_path: Path) -> None:
    draw = np.random.default_rng(1)
    bank = draw.standard_normal((200, 12)).astype(np.float32)
    pos = np.repeat(np.arange(200), 6)
    # Queries lie at a place that the stored documents do not have.
    moved = bank + 2 * draw.standard_normal((200, 12)).astype(np.float32)
    x = moved[pos] + 0.1 * draw.standard_normal((1200, 12)).astype(np.float32)
    order = draw.permutation(1200)
    train, val = order[:1000], order[1000:]
    pairs = {"X_train": x[train], "pos_train": pos[train], "X_val": x[val], "pos_val": pos[val]}
    found = {
        tower: ttf.train(
            pairs=pairs,
            bank=bank,
            doc_tower=tower,
            tower="linear",
            epochs=10,
            batch_size=50,
            threads=1,
            out=tmp_path / tower,
            sets={"calibrate.enabled": False},
        )
        for tower in ("identity", "embedding")
    }
    first = {name: run.summary["metrics_initial"] for name, run in found.items()}
    assert first["embedding"]["recall@10"] == first["identity"]["recall@10"]
    gained = found["embedding"].metrics["recall@1"] - found["identity"].metrics["recall@1"]
    assert gained > 0.05


def test_items_need_towers_that_know_them(sequences: Path, tmp_path: Path) -> None:
    with pytest.raises(ttf.ConfigError, match="but items .* have none"):
        ttf.plan(pairs=sequences, items=ITEMS, tower="linear")
    with pytest.raises(ttf.ConfigError, match="needs item numbers, but the queries are vectors"):
        ttf.plan(
            pairs={"X_train": np.ones((9, 4)), "pos_train": np.arange(9)},
            bank=np.random.default_rng(0).standard_normal((9, 4)),
            tower="embedding",
        )
