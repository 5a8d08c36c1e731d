"""What can be taken out of a configuration, and that nothing else changes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ttf.tools.bisect.factors import RULES, DataFacts, Factor, Survey, edits_of, factors_of

FLAT: dict[str, Any] = {
    "train.accumulate": 8,
    "train.batch_size": 64,
    "device.threads": 4,
    "device.name": "gpu0",
    "device.precision": "bf16",
    "device.gpu0.sync": "step",
    "device.gpu0.empty_cache": "never",
    "miner.threads": "auto",
    "miner.negatives": 4,
    "miner.isolation": "none",
    "miner.name": "faiss",
    "loss.memory_bank": 1000,
    "tower.query.name": "gru",
    "tower.query.dropout": 0.1,
    "tower.doc.name": "mlp",
    "observers": ["mine"],
}
FACTS = DataFacts(
    pairs=10_000,
    length=12,
    sequence=True,
    pairs_bytes=1000,
    data_bytes=2000,
    storage="npz",
    other={"tower": "linear", "doc-tower": "identity", "miner": "exact", "storage": "zarr"},
)


def found(flat: dict[str, Any] | None = None, facts: DataFacts = FACTS) -> dict[str, Factor]:
    return {f.name: f for f in factors_of(Survey(FLAT | (flat or {}), facts))[0]}


def test_every_ingredient_of_a_full_configuration_can_be_taken_out() -> None:
    assert list(found()) == list(RULES)


def test_the_names_of_the_contract_are_there() -> None:
    contract = (
        "accumulation batch-size threads mining miner isolation tower precision memory-bank "
        "storage data-subset device"
    )
    assert set(contract.split()) <= set(RULES)


def test_ranks_are_in_order_and_settings_come_before_components() -> None:
    factors = list(found().values())
    assert [f.rank for f in factors] == sorted({f.rank for f in factors})
    first = next(i for i, f in enumerate(factors) if f.component)
    assert {f.name for f in factors[first:] if not f.component} == {"mining"}
    names = [f.name for f in factors]
    assert names.index("isolation") < names.index("miner") < names.index("mining")


@pytest.mark.parametrize(
    ("name", "edits"),
    [
        ("accumulation", {"train.accumulate": 1}),
        ("batch-size", {"train.batch_size": 16, "train.fuse": 1}),
        ("threads", {"device.threads": 1}),
        ("precision", {"device.precision": "fp32"}),
        ("sync", {"device.gpu0.sync": "micro-batch"}),
        ("empty-cache", {"device.gpu0.empty_cache": "step"}),
        ("memory-bank", {"loss.memory_bank": 0}),
        ("dropout", {"tower.query.dropout": 0.0}),
        ("isolation", {"miner.isolation": "process"}),
        ("miner", {"miner.name": "exact"}),
        ("mining", {"miner.negatives": 0}),
        ("observers", {"observers": []}),
        ("tower", {"tower.query.name": "linear"}),
        ("doc-tower", {"tower.doc.name": "identity"}),
        ("device", {"device.name": "cpu"}),
    ],
)
def test_an_edit_changes_its_ingredient_alone(name: str, edits: dict[str, Any]) -> None:
    assert dict(found()[name].edits) == edits


def test_a_miner_with_threads_of_its_own_loses_them_too() -> None:
    edits = found({"miner.threads": 2})["threads"].edits
    assert edits == {"device.threads": 1, "miner.threads": 1}


def test_a_cache_that_is_emptied_stays_and_waiting_that_is_often_enough_is_passed_over() -> None:
    paced = {"device.gpu0.empty_cache": "micro-batch", "device.gpu0.sync": "micro-batch"}
    assert found(paced)["empty-cache"].edits == {"device.gpu0.empty_cache": "never"}
    assert "sync" not in found(paced)


def test_what_is_not_in_the_configuration_is_passed_over_with_the_reason() -> None:
    bare = {
        "train.accumulate": 1,
        "train.batch_size": 2,
        "device.threads": 1,
        "device.name": "cpu",
        "device.precision": "fp32",
        "miner.negatives": 0,
        "loss.memory_bank": 0,
        "tower.query.dropout": 0.0,
        "observers": [],
    }
    facts = replace(FACTS, sequence=False, local=False, other={})
    factors, passed = factors_of(Survey(FLAT | bare, facts))
    assert factors == []
    assert set(passed) == set(RULES) and all(passed.values())


def test_sequences_of_one_step_become_longer_and_others_shorter() -> None:
    lengths = {n: found(facts=replace(FACTS, length=n)) for n in (1, 2, 3, 12)}
    made = {n: f["sequence-length"].rewrite["length"] for n, f in lengths.items()}
    assert made == {1: 2, 2: 1, 3: 1, 12: 6}


def test_large_data_is_not_copied_unasked() -> None:
    facts = replace(FACTS, pairs_bytes=11 << 30, data_bytes=12 << 30)
    factors, passed = factors_of(Survey(FLAT, facts))
    names = {f.name for f in factors}
    assert not names & {"storage", "data-subset", "sequence-length"}
    assert "--copy-most" in passed["storage"]


def test_half_of_the_pairs_must_still_make_a_step() -> None:
    assert "data-subset" not in found(facts=replace(FACTS, pairs=1000))


def test_edits_of_several_come_together() -> None:
    chosen = found()
    merged = edits_of([chosen["accumulation"], chosen["mining"]])
    assert merged == {"train.accumulate": 1, "miner.negatives": 0}
