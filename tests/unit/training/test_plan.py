"""The prediction of `ttf train --plan`."""

from __future__ import annotations

import doctest
import json
from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from ttf import NoOptions
from ttf.config.schema import RunConfig
from ttf.contracts import BatchPlan, MinerContext, MinerCost, TowerCost
from ttf.machine.memory.limits import Limit
from ttf.training.loss.infonce import COLUMNS_AT_ONCE
from ttf.training.plan import (
    ArrayFacts,
    Choices,
    DataFacts,
    Item,
    Plan,
    _predict,
    _worker,
    auto_batch_size,
    make_plan,
)
from ttf_miners.exact_miner import ExactFactory

GB = 10**9
PAIRS = ArrayFacts(
    name="X_train",
    uri="data/pairs.npz",
    shape=(35_904, 100, 768),
    dtype="float32",
    bytes=35_904 * 100 * 768 * 4,
    mappable=True,
    aligned=False,
)
BANK = ArrayFacts(
    name="vectors",
    uri="data/bank.zarr",
    shape=(771_115, 768),
    dtype="float32",
    bytes=771_115 * 768 * 4,
    mappable=False,
    aligned=False,
)
FACTS = DataFacts(
    train_pairs=35_904,
    val_pairs=1_000,
    length=100,
    in_dim=768,
    sequence=True,
    doc_dim=768,
    bank_rows=771_115,
    distinct_documents=35_904,
    arrays=(PAIRS, BANK),
)
GRU = TowerCost(parameters=4_700_000, activation_bytes=3_900_000, forward_flops=800_000_000)
IDENTITY = TowerCost(parameters=0, activation_bytes=0, forward_flops=0)
CHOICES = Choices(
    query=GRU,
    doc=IDENTITY,
    doc_frozen=True,
    batch=BatchPlan(micro_batch=32, accumulate=16),
    total_steps=560,
    device="cpu",
    threads=2,
    precision="fp32",
    memory_bank=35_904,
    miner="exact",
    miner_cost=MinerCost(build_s=0.0, search_s=600.0, anon_bytes=200_000_000, disk_bytes=0),
    miner_needs_torch=True,
    refreshes=8,
    evaluations=9,
)
MINING = RunConfig.model_validate({"miner": {"negatives": 4}})
ROOMY = Limit(24 * GB, "physical memory")
UNCALIBRATED = RunConfig.model_validate(
    {"calibrate": {"enabled": False}, "miner": {"negatives": 4}}
)


def plan(limit: Limit = ROOMY, **changed: object) -> Plan:
    return make_plan(MINING, FACTS, replace(CHOICES, **changed), limit)  # type: ignore[arg-type]


def item(found: Plan, component: str) -> int:
    return next(i.anon_bytes for i in found.items if i.component == component)


def test_the_reference_run_is_predicted_below_its_bar() -> None:
    assert 0.5 * GB < plan().peak_anon_bytes < 1.5 * GB


def test_mapped_files_are_not_memory() -> None:
    found = plan()
    assert found.file_bytes == PAIRS.bytes
    assert found.peak_anon_bytes < PAIRS.bytes / 5


def test_components_follow_their_formulas() -> None:
    found = plan()
    assert item(found, "weights, gradients, AdamW") == 16 * GRU.parameters
    assert item(found, "micro-batches in memory") == 4 * 32 * 100 * 768 * 4
    assert item(found, "activations") == round(1.4 * 32 * GRU.activation_bytes)
    documents = 512 * 5 + 35_904
    assert item(found, "memory bank and candidates") == documents * 768 * 4
    assert item(found, "logits") == 2 * 32 * COLUMNS_AT_ONCE * 4
    linear = TowerCost(parameters=590_000, activation_bytes=6_144, forward_flops=1_180_000)
    trained = plan(doc=linear, doc_frozen=False)
    assert item(trained, "logits") == 2 * 32 * documents * 4


def test_candidate_tables_take_twelve_bytes_an_entry_for_each_that_is_kept() -> None:
    tables = next(i for i in plan().items if i.component == "candidate tables")
    assert tables.disk_bytes == 3 * 35_840 * 200 * 12
    assert tables.anon_bytes == 0


def test_vectors_kept_for_the_next_round_take_disk_and_save_the_encoding() -> None:
    reusing = RunConfig.model_validate({"miner": {"negatives": 4, "queries": "reuse"}})
    rounds = replace(CHOICES, refreshes=8)
    found, before = (make_plan(c, FACTS, rounds, ROOMY) for c in (reusing, MINING))
    [kept] = [i for i in found.items if i.component == "query vectors of training"]
    assert kept.disk_bytes == 3 * FACTS.train_pairs * FACTS.doc_dim * 4
    once, each = (
        next(i.seconds for i in p.items if i.component == "encoded queries")
        for p in (found, before)
    )
    assert each == pytest.approx(8 * once)
    assert not any("query vectors" in i.component for i in before.items)


def test_a_miner_in_the_trainer_needs_no_process_of_its_own() -> None:
    inside = RunConfig.model_validate({"miner": {"isolation": "none", "negatives": 4}})
    found = make_plan(inside, FACTS, CHOICES, ROOMY)
    assert not any("its process" in i.component for i in found.items)
    assert found.anon_bytes("mining") < plan().anon_bytes("mining")


def test_a_calibration_takes_its_queries_and_can_be_made_smaller() -> None:
    found = plan()
    assert item(found, "calibration") > 20_000 * 768 * 6
    smaller = RunConfig.model_validate({"calibrate": {"sample": 1000}, "miner": {"negatives": 4}})
    other = make_plan(smaller, FACTS, CHOICES, ROOMY)
    assert item(other, "calibration") < item(found, "calibration")
    assert other.seconds < found.seconds


def test_phases_are_not_added_up() -> None:
    found = plan()
    assert found.peak_anon_bytes == found.anon_bytes(found.peak_phase)
    assert found.peak_anon_bytes < sum(i.anon_bytes for i in found.items)


def test_without_mined_negatives_nothing_is_predicted_for_a_miner() -> None:
    found = plan(miner="", miner_cost=None, refreshes=0)
    assert not any("miner" in i.component or "candidate t" in i.component for i in found.items)
    assert "no mined negatives" in found.text()


def test_a_trainable_document_tower_costs_activations_and_larger_checkpoints() -> None:
    linear = TowerCost(parameters=590_000, activation_bytes=6_144, forward_flops=1_180_000)
    frozen, trained = plan(), plan(doc=linear, doc_frozen=False)
    assert item(trained, "activations") > item(frozen, "activations")
    assert trained.disk_bytes > frozen.disk_bytes + 3 * 35_904 * 768 * 4


def test_the_limit_decides_whether_it_fits_and_the_text_says_so() -> None:
    tight = plan(limit=Limit(300_000_000, "cgroup /job (memory.max)"))
    assert plan().fits and "Fits:" in plan().text()
    assert not tight.fits
    assert "Does NOT fit" in tight.text() and "cgroup /job" in " ".join(tight.text().split())


def test_what_does_not_fit_is_told_what_to_lower_the_largest_first() -> None:
    choices = replace(CHOICES, threads=8, miner="", refreshes=0)
    choices = replace(choices, batch=BatchPlan(micro_batch=64, accumulate=8))
    tight = make_plan(UNCALIBRATED, FACTS, choices, Limit(700_000_000, "cgroup"))
    options = [option for option, _, _ in tight.lowerable]
    assert options == [
        "--batch-size (now 64)",
        "--threads (now 8)",
        "--memory-bank (now 35,904)",
    ]
    text = tight.text()
    assert "too much. Options to lower, the one with the most memory first:" in text
    assert text.index("--batch-size (now 64): ") < text.index("--threads (now 8): 128 MB for")
    assert "activations" in text[text.index("--batch-size (now 64)") :]


def test_what_cannot_be_lowered_is_not_advised() -> None:
    least = plan(threads=1, batch=BatchPlan(micro_batch=1, accumulate=1), memory_bank=0)
    assert not {o.split()[0] for o, _, _ in least.lowerable} & {"--threads", "--batch-size"}
    assert "cannot be lowered by an option" in plan(limit=Limit(100_000_000, "cgroup")).text()


def test_the_miners_process_is_started_once_and_stays() -> None:
    def process(**changed: object) -> Item:
        items = plan(**changed).items  # type: ignore[arg-type]
        return next(i for i in items if i.component.endswith("its process"))

    assert process().seconds == _worker.WORKER_TORCH_START_S
    assert process(miner_needs_torch=False).seconds == _worker.WORKER_START_S
    assert process().phase == "always"


def test_an_index_that_is_kept_counts_in_every_phase() -> None:
    index = CHOICES.miner_cost.anon_bytes if CHOICES.miner_cost else 0
    kept = plan(miner_keeps_index=True)
    for phase in ("training", "evaluation"):
        assert kept.anon_bytes(phase) == plan().anon_bytes(phase) + index
    assert kept.anon_bytes("mining") == plan().anon_bytes("mining")


WORDNET = replace(
    FACTS,
    train_pairs=46_000,
    val_pairs=4000,
    length=1,
    in_dim=384,
    sequence=False,
    doc_dim=384,
    bank_rows=52_000,
)
LINEAR = TowerCost(parameters=147_456, activation_bytes=1536, forward_flops=294_912)


@pytest.mark.parametrize(
    ("changed", "measured_mb"),
    [
        ({}, 646),
        ({"doc": LINEAR, "doc_frozen": False}, 787),
        ({"miner": "", "miner_cost": None, "refreshes": 0}, 442),
    ],
    ids=["linear", "trainable documents", "full bank"],
)
def test_what_was_measured_is_predicted_within_a_fifth(
    changed: dict[str, object], measured_mb: float
) -> None:
    """wordnet-definitions, 120 steps of 512, two rounds of the exact miner, 2026-11-19."""
    context = MinerContext(threads=2, seed=0, deterministic=True, budget_bytes=6 * GB)
    cost = ExactFactory().estimate(52_000, 384, 46_000, 200, NoOptions(), context)
    choices = replace(
        CHOICES,
        query=LINEAR,
        batch=BatchPlan(micro_batch=512, accumulate=1),
        total_steps=120,
        memory_bank=0,
        miner_cost=cost,
        refreshes=2,
    )
    found = make_plan(UNCALIBRATED, WORDNET, replace(choices, **changed), ROOMY)  # type: ignore[arg-type]
    assert found.peak_anon_bytes / 1e6 == pytest.approx(measured_mb, rel=0.2)


def test_a_tiny_run_takes_under_a_second_not_none() -> None:
    tiny = replace(FACTS, train_pairs=16, val_pairs=1, bank_rows=16)
    choices = replace(CHOICES, total_steps=1, miner="", miner_cost=None, refreshes=0)
    choices = replace(choices, query=IDENTITY, batch=BatchPlan(micro_batch=1, accumulate=1))
    text = make_plan(MINING, tiny, choices, ROOMY).text()
    assert "less than a second" in text[text.index("= in total") :]


@pytest.mark.parametrize("limit", [ROOMY, Limit(700_000_000, "cgroup /a/job (memory.max)")])
def test_everything_fits_eighty_columns_and_no_word_is_cut(limit: Limit) -> None:
    found = plan(limit=limit, threads=16)
    assert max(map(len, found.text().splitlines())) < 80
    assert "gathered as bytes" in " ".join(found.text().split())


def test_the_text_names_every_array_and_the_caps() -> None:
    text = plan(notes=("mps allows at most 4 micro-batches",)).text()
    assert "pairs.npz: X_train" in text and "35,904 x 100 x 768" in text
    assert "mapped, unaligned" in text and "decoded in parts" in text
    assert "note: mps allows at most 4 micro-batches" in text
    assert "rough" in text


def test_the_json_holds_what_the_text_says() -> None:
    found = plan()
    loaded = json.loads(json.dumps(found.to_json()))
    assert loaded["fits"] is True
    assert loaded["peak_anon_bytes"] == found.peak_anon_bytes == max(loaded["anon_bytes"].values())
    assert loaded["disk_bytes"] == sum(i["disk_bytes"] for i in loaded["items"])
    assert loaded["arrays"][0]["access"].startswith("mapped")


def test_more_threads_predict_less_time() -> None:
    assert plan(threads=4).seconds < plan(threads=2).seconds


@given(st.integers(min_value=0, max_value=2**40))
def test_the_automatic_batch_is_a_power_of_two_within_bounds_and_budget(activation: int) -> None:
    size = auto_batch_size(activation)
    assert 16 <= size <= 1024 and size & (size - 1) == 0
    assert size == 16 or size * activation <= 128 << 20
    assert size == 1024 or 2 * size * activation > 128 << 20


def test_batch_sizes_read_as_documented() -> None:
    assert doctest.testmod(_predict).failed == 0


@pytest.mark.parametrize("steps", [1, 10])
def test_a_short_run_mines_only_the_queries_it_visits(steps: int) -> None:
    choices = replace(CHOICES, total_steps=steps, refreshes=1)
    assert _predict.mined_queries(FACTS, choices) == steps * 512
