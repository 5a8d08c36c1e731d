"""The section for runs on several processes and hosts. How many there are is no setting: --nodes and
--ranks say it anew each time a run is started or resumed."""

from __future__ import annotations

from ttf.config.declare import Name, Section, Timeout, key


class ScaleConfig(Section):
    """How the processes of a run on several hosts wait for one another."""

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
