"""What a run takes if nothing is said: decided by counts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ttf.config.resolve import resolve
from ttf.config.schema import MinerConfig
from ttf.contracts import TowerCost
from ttf.data.order import Order
from ttf.training.auto_choices import Work, choose_evaluations, choose_negatives

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
