"""The section for runs on several processes and hosts. How many there are is no setting: --nodes and
--ranks say it anew each time a run is started or resumed."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from ttf.config.declare import Auto, Name, Section, Timeout, key, within


class ScaleConfig(Section):
    """How the processes of a run on several hosts wait for one another, and what their plan assumes."""

    join_s: Timeout = key(
        600.0,
        "at the start, how long the nodes wait for those that are missing; then the run ends and "
        "names them",
        unit="s",
    )
    patience_s: Timeout = key(
        3600.0,
        "later, how long a node that has lost the others tries to reach them again",
        unit="s",
    )
    exchange_timeout_s: Timeout = key(
        60.0,
        "how long a process waits in an exchange for the others, and a node for a sign of life of "
        "another; choose more than the longest pause of the network, and of a step",
        unit="s",
    )
    interface: Name = key(
        "",
        "network interface of the exchange, e.g. 'eth1'; empty: the one that reaches the address of "
        "--rendezvous",
    )
    network_gbit: Annotated[float, Field(gt=0, le=100_000)] | Auto = key(
        "auto",
        "bandwidth between two nodes, for --plan; auto: as ttf doctor --peers measured it, else 10",
        unit="Gb/s",
    )
    network_latency_ms: Annotated[float, within(0, 60_000)] | Auto = key(
        "auto",
        "time that a message takes from node to node, for --plan; auto: as ttf doctor --peers "
        "measured it, else 0.1",
        unit="ms",
    )
    deaths_per_node_day: Annotated[float, Field(gt=0, le=1000)] = key(
        0.0065,
        "how often a node dies, for --plan: 6.5 times in 1000 days were counted in a large cluster "
        "(https://arxiv.org/abs/2410.21680)",
        unit="deaths per node and day",
    )
