"""The plan of a run on several nodes, and the simulation that its formulas are checked with."""

from __future__ import annotations

import doctest
from dataclasses import replace

import pytest
from hypothesis import given, strategies as st
from tests.kit.simulated_fleet import DAY_S, Fleet, expected_goodput, harsh
from tests.kit.simulated_nodes import simulate
from tests.unit.training.test_plan import CHOICES, FACTS, MINING, ROOMY

from ttf.config.scale_schema import ScaleConfig
from ttf.config.schema import RunConfig
from ttf.errors import ConfigError
from ttf.machine.network import MeasuredNetwork
from ttf.rundir import exchange_facts
from ttf.text.progress import ending
from ttf.training.plan import _rates, make_plan, scale
from ttf.training.plan.scale import Link, Node, Round, Shape
from ttf.training.plan.scaled import scale_plan, shape_of
from ttf.world.tree import nodes_of, samples_of, shards_of

TEN_GBIT = Link(bytes_per_s=1.25e9, latency_s=1e-4)
LOCAL = Link(bytes_per_s=2e9, latency_s=2e-5)
GIGABIT = RunConfig.model_validate(
    {"scale": {"network_gbit": 1, "network_latency_ms": 0.1}, "miner": {"negatives": 4}}
)


def test_the_examples_are_true() -> None:
    for module in (scale, exchange_facts, ending):
        assert doctest.testmod(module).failed == 0


# --- what is sent -----------------------------------------------------------------------------------


@given(st.integers(1, 4), st.integers(1, 3), st.integers(1, 10_000), st.integers(0, 5))
def test_what_is_sent_is_what_the_world_of_gloo_sends(
    nodes: int, ranks: int, floats: int, doublings: int
) -> None:
    """Counted message by message, as `GlooWorld.total` and gloo's ring send them."""
    world = nodes * ranks
    shards = (1 << (world - 1).bit_length()) << doublings
    width = 4 * -(-floats // world)
    part = 4 * max(
        sum(
            len(range(*samples_of(shard, 5 * shards, shards)))
            for shard in shards_of(r, world, shards)
        )
        for r in range(world)
    )
    counts = [len(nodes_of(shards_of(rank, world, shards))) for rank in range(world)]
    messages = [(a, b, counts[a] * width) for a in range(world) for b in range(world) if a != b] + [
        (a, (a + 1) % world, (world - 1) * width) for a in range(world) if world > 1
    ]
    shape = Shape(nodes=nodes, ranks=ranks, shards=shards)
    sent = scale.summed(shape, floats)
    assert (sent.by_rank, sent.by_node) == _busiest(messages, shape)
    ring = [(a, (a + 1) % world, (world - 1) * part) for a in range(world) if world > 1]
    sent = scale.joined(shape, 5 * shards)
    assert (sent.by_rank, sent.by_node) == _busiest(ring, shape)


def _busiest(messages: list[tuple[int, int, int]], shape: Shape) -> tuple[int, int]:
    """Bytes of the busiest rank, and of the busiest node over the network, in one direction."""
    ranks = shape.ranks
    by_node = by_rank = 0
    for node in range(shape.nodes):
        out = sum(n for a, b, n in messages if a // ranks == node != b // ranks)
        into = sum(n for a, b, n in messages if b // ranks == node != a // ranks)
        by_node = max(by_node, out, into)
    for rank in range(shape.world):
        out = sum(n for a, _, n in messages if a == rank)
        into = sum(n for _, b, n in messages if b == rank)
        by_rank = max(by_rank, out, into)
    return by_rank, by_node


@pytest.mark.parametrize(
    ("world", "gbit", "expected_s"),
    [(1000, 10, 0.030), (1000, 1, 0.302), (2, 10, 0.0151), (4, 1, 0.227)],
)
def test_the_exchange_takes_what_the_note_of_the_design_worked_out(
    world: int, gbit: float, expected_s: float
) -> None:
    shape = Shape(nodes=world, shards=1024 if world == 1000 else world)
    sent = scale.Sent(
        by_rank=round(2 * 18.9e6 * (world - 1) / world),
        by_node=round(2 * 18.9e6 * (world - 1) / world),
    )
    link = Link(bytes_per_s=gbit * 1e9 / 8, latency_s=0.0)
    fast = replace(LOCAL, bytes_per_s=1e12)
    assert scale.exchange_s(shape, sent, link, fast) == pytest.approx(expected_s, rel=0.01)


def test_a_rank_with_more_shards_makes_the_step_longer() -> None:
    assert Shape(nodes=3, shards=8).largest_share == pytest.approx(3 / 8)
    assert Shape(nodes=4, shards=8).largest_share == pytest.approx(2 / 8)
    with pytest.raises(ConfigError, match="cannot share the 8 shards"):
        shape_of(8, 3, 3)


# --- mining -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("rows", "hours"), [(10**7, 0.7), (10**8, 7.1), (10**9, 71)])
def test_mining_takes_what_the_note_of_the_design_worked_out(rows: int, hours: float) -> None:
    work = Round(queries=100_000, rows=rows, dim=768, entries=200)
    node = Node(flops=0.6e12, disk_bytes_per_s=5e9, bank_memory=1e13, query_memory=2e9)
    alone = scale.mined(work, 1, node, TEN_GBIT, first=True)
    assert alone.seconds / 3600 == pytest.approx(hours, rel=0.03)
    assert alone.sent == 0
    many = scale.mined(work, 64, node, TEN_GBIT, first=True)
    assert many.seconds < alone.seconds / 50


def test_a_bank_larger_than_a_nodes_memory_is_divided_by_rows() -> None:
    work = Round(queries=100_000, rows=10**8, dim=768, entries=200)
    node = Node(flops=0.6e12, disk_bytes_per_s=1e9, bank_memory=50e9, query_memory=1e9)
    small = replace(node, bank_memory=1e12)
    assert scale.mined(work, 8, node, TEN_GBIT, first=True).by_rows
    assert not scale.mined(work, 8, small, TEN_GBIT, first=True).by_rows
    # The answers to everybody, and the queries before: the note's 0.24 and 0.31 GB.
    sent = scale.mined(work, 8, node, TEN_GBIT, first=True).sent
    assert sent == pytest.approx((2 * 0.24e9 + 0.307e9) * 7 / 8, rel=0.01)


# --- deaths -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("nodes", "lost"), [(4, 0.0002), (64, 0.0008), (1000, 0.0043)], ids=["4", "64", "1000"]
)
def test_checkpoints_beside_the_training_waste_little(nodes: int, lost: float) -> None:
    mtbf = scale.mtbf_s(nodes, 6.5e-3)
    best = scale.interval_s(0.05, mtbf, 20)
    assert scale.waste(0.05, best, mtbf, 20) == pytest.approx(lost, abs=1e-4)
    for other in (best / 2, best * 2):
        assert scale.waste(0.05, other, mtbf, 20) > scale.waste(0.05, best, mtbf, 20)


def test_a_long_time_limit_costs_more_than_checkpoints() -> None:
    mtbf = scale.mtbf_s(1000, 6.5e-3)
    best = scale.interval_s(0.05, mtbf, 60)
    minutes = scale.waste(0.05, best, mtbf, 1800) - scale.waste(0.05, best, mtbf, 60)
    assert minutes == pytest.approx(0.13, abs=0.01)


# --- the whole plan ---------------------------------------------------------------------------------


def test_a_plan_of_several_nodes_has_its_figures_in_text_and_json() -> None:
    plan = make_plan(GIGABIT, FACTS, CHOICES, ROOMY)
    assert "scale" not in plan.to_json()
    plan = replace(plan, scale=scale_plan(plan, GIGABIT, shape_of(8, 4, 2)))
    found = plan.to_json()["scale"]
    assert (found["nodes"], found["ranks"], found["shards"]) == (4, 2, 8)
    assert found["exchange_bytes"] == pytest.approx(2 * 4_700_000 * 4 * 7 / 8, rel=1e-3)
    # Two ranks of a node send through one network card.
    assert found["exchange_s"] == pytest.approx((2 * 6 + 7) * 4 * 4_700_000 / 8 / 0.125e9, rel=0.02)
    assert 0 < found["exchange_share"] < 1 and 0 < found["goodput"] < 1
    assert found["mtbf_s"] == pytest.approx(38.46 * DAY_S, rel=1e-3)
    text = plan.text()
    assert "4 nodes with 2 ranks each, a step in 8 shards" in text
    for name in ("exchange of a step", "mining", "network", "a death every", "goodput"):
        assert f"\n  {name}" in text
    assert "scale.network_gbit" in text
    assert max(map(len, text.splitlines())) < 80


def test_one_node_sends_nothing_over_the_network() -> None:
    plan = make_plan(MINING, FACTS, CHOICES, ROOMY)
    found = scale_plan(plan, MINING, shape_of(8, 1, 2)).to_json()
    assert found["network_bytes"] == 0
    assert found["exchange_s"] > 0


def test_more_nodes_take_less_time_and_more_of_it_is_exchange() -> None:
    plan = make_plan(GIGABIT, FACTS, CHOICES, ROOMY)
    plans = [scale_plan(plan, GIGABIT, shape_of(8, nodes, 1)) for nodes in (1, 2, 4, 8)]
    assert sorted(p.exchange_share for p in plans) == [p.exchange_share for p in plans]
    assert sorted((p.seconds for p in plans), reverse=True) == [p.seconds for p in plans]
    larger = plans[-1].samples_for_less / CHOICES.batch.samples
    assert larger > 1 and plans[-1].exchange_share > 0.05


def test_the_network_is_as_configured_else_as_measured_else_assumed_aloud() -> None:
    kept = MeasuredNetwork(date="2026-11-20", nodes=2, gbit=2.5, latency_ms=0.4)
    assert "assumed" in _rates.network(ScaleConfig(), None).source
    link = _rates.network(ScaleConfig(), kept)
    assert (link.bytes_per_s, link.latency_s) == (2.5e9 / 8, 0.4e-3)
    assert "ttf doctor --peers" in link.source and "assumed" not in link.source
    link = _rates.network(ScaleConfig(network_gbit=100), kept)
    assert link.bytes_per_s == 100e9 / 8
    assert "scale.network_gbit" in link.source and "measured" in link.source


# --- after the run ----------------------------------------------------------------------------------


def test_the_measured_exchange_stands_beside_the_plan() -> None:
    lines = [
        {"type": "step", "seconds": 1.0, "exchange_s": 0.02},
        {"type": "step", "seconds": 1.0, "exchange_s": 0.04},
        {"type": "step", "seconds": 1.0, "exchange_s": float("nan")},
        {"type": "eval", "seconds": 9.0},
        {"type": "step", "seconds": 1.0},
    ]
    found = exchange_facts.measured(lines)
    assert found == {"steps": 2, "seconds": pytest.approx(0.03), "share": pytest.approx(0.03)}
    assert exchange_facts.measured([{"type": "step", "seconds": 1.0}]) == {}
    rows = dict(ending.summary_rows({"exchange": {**found, "planned_seconds": 0.025}}))
    assert rows["exchange"].startswith("30 ms in a step, 3.0% of the time; planned were 25 ms")
    assert "exchange" not in dict(ending.summary_rows({"steps": 3}))


# --- the simulation: a seeded part; all of it is benchmarks/simulate_scale.py -------------------------


@pytest.mark.parametrize("seed", range(2))
def test_a_thousand_nodes_for_days_make_the_progress_that_the_formula_says(seed: int) -> None:
    days = 2.0
    fleet = Fleet(nodes=1000, deaths_per_node_day=6.5e-3, beat_s=30)
    run = simulate(fleet, seed, until_s=days * DAY_S)
    assert run.ended == "time" and not run.stuck
    assert run.deaths > 3 and run.spawns > 3
    assert run.goodput >= 0.99
    # In a few days there are more or fewer deaths than usual.
    met = replace(fleet, deaths_per_node_day=run.deaths / fleet.nodes / days)
    assert run.goodput == pytest.approx(expected_goodput(met), abs=0.002)


def test_no_hard_run_sticks() -> None:
    ends = set()
    for seed in range(100):
        fleet, steps = harsh(seed)
        run = simulate(fleet, seed, steps=steps, until_s=30 * DAY_S)
        assert not run.stuck, (seed, run)
        ends.add(run.ended)
    assert {"finished", "gave up"} <= ends


def test_a_host_that_does_not_come_back_ends_the_patience_not_the_restarts() -> None:
    fleet = Fleet(nodes=3, deaths_per_node_day=1.0, absent_s=1e6, patience_s=600)
    run = simulate(fleet, 1, until_s=30 * DAY_S)
    assert run.ended == "lost patience"


def test_a_rank_that_is_too_slow_for_ever_ends_the_run() -> None:
    fleet = Fleet(nodes=4, stragglers_per_day=1000.0, straggler_s=1e9, slowdown=1000.0, step_s=1.0)
    run = simulate(fleet, 0, until_s=30 * DAY_S)
    assert run.ended == "gave up" and not run.stuck
