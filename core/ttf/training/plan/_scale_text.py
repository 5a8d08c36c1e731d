"""The part of a plan's text about several nodes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ttf.text.numbers import duration, fine_duration, size

if TYPE_CHECKING:
    from ttf.training.plan.scaled import ScalePlan

Row = tuple[str, str, str]


def title(plan: ScalePlan) -> str:
    shape = plan.shape
    ranks = "1 rank" if shape.ranks == 1 else f"{shape.ranks} ranks"
    nodes = "1 node" if shape.nodes == 1 else f"{shape.nodes:,} nodes"
    return f"{nodes} with {ranks} each, a step in {shape.shards:,} shards (rough, like the times above)"


def rows(plan: ScalePlan) -> Iterator[Row]:
    """(name, figure, why)"""
    yield (
        "exchange of a step",
        fine_duration(plan.exchange_s),
        f"{size(plan.exchange_bytes)} of each rank; network: {plan.network.source}",
    )
    yield (
        "= share of a step",
        f"{plan.exchange_share:.1%}",
        (
            f"a step computes {fine_duration(plan.compute_s)}, and waits "
            f"{fine_duration(plan.straggling_s)} for the slowest rank; {plan.rates.source}"
        ),
    )
    if plan.exchange_share > 0.05:
        yield (
            "for a share of 5%",
            f"{plan.samples_for_less:,}",
            "samples in a step (--batch-size, --accum), or a faster network",
        )
    if plan.mining:
        disk = f"disk {size(plan.rates.disk)}/s, {plan.rates.disk_source}"
        yield "mining", duration(plan.mining_s), f"{plan.mining}; {disk}"
    if plan.shape.nodes > 1:
        yield "network", size(plan.network_bytes), "sent by one node in the whole run"
    yield (
        "a death every",
        duration(plan.mtbf_s),
        f"{plan.deaths_per_node_day:g} of a node and day (scale.deaths_per_node_day)",
    )
    yield (
        "each costs",
        duration(plan.restart_s),
        (
            "until it is noticed at the latest (scale.exchange_timeout_s), and a restart; a host that "
            "does not come back costs its absence as well"
        ),
    )
    yield (
        "best checkpoint interval",
        duration(plan.checkpoint_s),
        f"a checkpoint delays the training by {duration(plan.checkpoint_cost_s)}",
    )
    yield (
        "goodput",
        f"{plan.goodput:.2%}",
        f"of the time is new steps; {plan.wasted:.2%} is lost to deaths and checkpoints",
    )
    yield "= the whole run", duration(plan.seconds), "training, mining, evaluation"
    yield (
        "memory of a node",
        size(plan.node_anon_bytes),
        f"at most: {plan.shape.ranks} x the peak above" + ("" if plan.fits else "; does NOT fit"),
    )
