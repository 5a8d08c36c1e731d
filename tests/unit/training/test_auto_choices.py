"""What a run takes if nothing is said: decided by counts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.kit.data_files import config

from ttf.config.resolve import load_run_toml, resolve
from ttf.config.schema import MinerConfig
from ttf.config.toml import dump
from ttf.contracts import TowerCost
from ttf.data.dataset import Dataset
from ttf.data.open_dataset import open_dataset
from ttf.data.order import Order
from ttf.errors import ConfigError
from ttf.machine.devices import choose
from ttf.training.auto_choices import Work, choose_evaluations, choose_negatives, said_of_mining
from ttf.training.auto_settings import decide

IDENTITY = TowerCost(parameters=0, activation_bytes=0, forward_flops=0)
LINEAR = TowerCost(parameters=384**2, activation_bytes=1536, forward_flops=2 * 384**2)


def work(
    samples: int = 1024, pairs: int = 20_000, documents: int = 28_000, epochs: int = 8
) -> Work:
    order = Order(size=pairs, samples_per_step=samples, seed=0, fingerprint="", shuffle=True)
    return Work(
        query=LINEAR,
        doc=IDENTITY,
        documents=documents,
        width=384,
        val_pairs=1_000,
        order=order,
        steps=epochs * order.steps_per_epoch,
        others=0 if samples >= 1024 else min(pairs, 50_000),
        rounds=epochs,
    )


@pytest.mark.parametrize(
    ("given", "number", "reason"),
    [
        (work(), 0, "compared with 1,024 documents"),
        (work(pairs=200_000, documents=500_000), 0, "compared with 1,024 documents"),
        (work(samples=512, documents=5_000), 4, "only 512 documents of its own"),
        (work(samples=512, documents=500_000), 0, "does not pay"),
        (work(samples=64, pairs=1_000, documents=1_000), 0, "does not pay"),
    ],
    ids=["large steps", "the largest bar", "a small bank", "a large bank", "a short run"],
)
def test_negatives_are_mined_where_a_step_is_small_and_mining_is_cheap(
    given: Work, number: int, reason: str
) -> None:
    found, why = choose_negatives(MinerConfig(), given)
    assert found == number and reason in why


def test_whoever_names_a_miner_mines_and_a_default_written_out_says_nothing() -> None:
    named = MinerConfig.model_validate({"name": "hnswlib"})
    assert choose_negatives(named, work()) == (4, "miner.name is set")
    again = MinerConfig.model_validate({"k": "auto", "refresh": "epoch", "isolation": "none"})
    assert choose_negatives(again, work())[0] == 0


def test_the_cost_of_mining_is_said_and_less_with_vectors_from_the_training() -> None:
    given = work(samples=512, documents=5_000)
    said = said_of_mining(given)
    assert f"{given.mining / given.training:.2g} times the work of the training" in said
    assert "8 rounds of 19,968 queries against 5,000 documents" in said
    reusing = replace(given, reuses_queries=True)
    saved = 7 * given.queries_of_a_round * LINEAR.forward_flops
    assert given.mining - reusing.mining == pytest.approx(saved)
    assert "after the first round" in said_of_mining(reusing)


@pytest.mark.parametrize(
    ("steps", "hidden", "rows"), [(100, 512, 256), (2, 16, 512)], ids=["founding", "small"]
)
def test_fused_micro_batches_stay_within_their_memory(
    steps: int, hidden: int, rows: int, tmp_path: Path
) -> None:
    bank = np.tile(np.arange(4, dtype=np.float32)[:, None], (1, 768))
    arrays: dict[str, Any] = {
        "seq_train": np.zeros((600, steps), np.int32),
        "pos_train": np.arange(600) % 4,
    }
    arrays |= {"seq_val": np.zeros((4, steps), np.int32), "pos_val": np.arange(4)}
    options = [f"tower.query.hidden={hidden}", "memory.budget='16GB'"]
    flags = {"--tower": "gru", "--batch-size": 32, "--accum": 16}
    with open_dataset(config(tmp_path, arrays, {"vectors": bank})) as data:
        found = decide(resolve(sets=options, flags=flags), data, choose("cpu", {}, 1))
    assert found.plan.micro_batch == rows
    assert found.config.train.fuse == rows // 32


@pytest.fixture
def data(tmp_path: Path) -> Iterator[Dataset]:
    """Single vectors and their documents."""
    rows = np.eye(8, dtype=np.float32)[np.arange(64) % 8]
    arrays: dict[str, Any] = {"X_train": rows, "pos_train": np.arange(64) % 8}
    arrays |= {"X_val": rows[:8], "pos_val": np.arange(8)}
    with open_dataset(config(tmp_path, arrays, {"vectors": rows[:8]})) as opened:
        yield opened


MINING = ["miner.negatives=2", "train.batch_size=8"]


@pytest.mark.parametrize(
    ("options", "miner", "which", "k"),
    [
        ([], "exact", "passing", 11),
        (["negatives.draw_from=4", "negatives.absolute_margin=0.1"], "exact", "passing", 5),
        (["miner.k=7"], "exact", "passing", 7),
        ([], "faiss", "nearest", 200),
        (["negatives.rank_to=50"], "exact", "passing", 11),
        (["negatives.rank_to=5"], "exact", "passing", 5),
        (["negatives.min_yield=0.5"], "exact", "nearest", 200),
        (["miner.candidates='below'"], "exact", "below", 11),
        (["negatives.rank_from=3"], "exact", "nearest", 200),
        (["negatives.relative_margin='none'"], "exact", "nearest", 11),
        (["miner.candidates='nearest'"], "exact", "nearest", 200),
    ],
    ids=str,
)
def test_candidates_are_looked_for_below_the_margins_where_that_can_be(
    options: list[str], miner: str, which: str, k: int, data: Dataset
) -> None:
    resolved = resolve(sets=[*MINING, *options], flags={"--miner": miner})
    found = decide(resolved, data, choose("cpu", {}, 1)).config.miner
    assert (found.candidates, found.num_candidates) == (which, k)


@pytest.mark.parametrize(
    ("options", "miner", "problem"),
    [
        ([], "faiss", "'faiss' only finds the nearest of all"),
        (["negatives.rank_from=2"], "exact", "rank_from or negatives.rank_to is set"),
        (["negatives.relative_margin='none'"], "exact", "are not set"),
    ],
    ids=str,
)
def test_candidates_below_the_margins_are_refused_where_they_cannot_be_had(
    options: list[str], miner: str, problem: str, data: Dataset
) -> None:
    asked = [*MINING, "miner.candidates='passing'", *options]
    with pytest.raises(ConfigError, match=problem):
        decide(resolve(sets=asked, flags={"--miner": miner}), data, choose("cpu", {}, 1))


def test_a_run_of_an_older_version_goes_on_with_its_candidates(
    data: Dataset, tmp_path: Path
) -> None:
    policy = choose("cpu", {}, 1)
    new = decide(resolve(sets=MINING, flags={"--miner": "exact"}), data, policy)
    lines = dump(new.resolved).splitlines()
    file = tmp_path / "run.toml"
    file.write_text("\n".join(line for line in lines if not line.startswith("candidates")))
    again = decide(load_run_toml(file), data, policy).config.miner
    assert again.candidates == "nearest"
    file.write_text("\n".join(lines))
    assert decide(load_run_toml(file), data, policy).config.miner.candidates == "passing"


def test_evaluations_stay_within_their_share_and_a_short_run_has_one_each_epoch() -> None:
    assert choose_evaluations(work(pairs=4_000, documents=4_000))[0] == "epoch"
    large = work()
    every, why = choose_evaluations(large)
    assert isinstance(every, int) and every % large.order.steps_per_epoch == 0
    number = 1 + -(-large.steps // every)
    assert f"{number} evaluations" in why
    assert number * large.evaluation <= 0.15 * large.training
    more = 1 + -(-large.steps // (every - large.order.steps_per_epoch))
    assert more * large.evaluation > 0.15 * large.training
    assert choose_evaluations(replace(large, documents=5_000_000))[0] == "end"


def test_options_without_a_name_are_those_of_the_gru_as_before() -> None:
    assert resolve().config.tower.query.name == "auto"
    assert resolve(sets=["tower.query.bidirectional=false"]).config.tower.query.name == "gru"
    chosen = resolve(sets=["tower.query.hidden=8"], flags={"--tower": "mlp"}).config.tower.query
    assert (chosen.name, chosen.options()["hidden"]) == ("mlp", 8)
