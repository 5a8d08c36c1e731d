"""The section about several nodes."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from ttf.config.declare import Auto, Name, Section, Timeout, key, within


class ScaleConfig(Section):
    """A run on several nodes: how long they wait for one another, and what its plan assumes."""

    join_s: Timeout = key(
        600.0, "how long a start waits for all nodes; then it names those that are missing", unit="s"
    )
    patience_s: Timeout = key(
        3600.0, "how long a node that could not join tries again before it gives up", unit="s"
    )
    exchange_timeout_s: Timeout = key(
        60.0,
        "a rank whose part of a step is missing for this time is lost; all start again from the "
        "newest checkpoint",
        unit="s",
    )
    interface: Name = key(
        "", "network interface of this node, e.g. 'eth0'; empty: the one that reaches node 0"
    )
    network_gbit: Annotated[float, Field(gt=0, le=100_000)] | Auto = key(
        "auto",
        "bandwidth between two nodes that the plan assumes; auto: as ttf doctor --peers measured "
        "it, else 10",
        unit="Gb/s",
    )
    network_latency_ms: Annotated[float, within(0, 60_000)] | Auto = key(
        "auto",
        "time of a message from node to node that the plan assumes; auto: as ttf doctor --peers "
        "measured it, else 0.1",
        unit="ms",
    )
    deaths_per_node_day: Annotated[float, Field(gt=0, le=1000)] = key(
        0.0065,
        "how often a node dies, as the plan assumes: 6.5 times in 1000 days were counted in a large "
        "cluster (https://arxiv.org/abs/2410.21680)",
        unit="deaths per node and day",
    )
