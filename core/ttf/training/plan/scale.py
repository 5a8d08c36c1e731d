"""The arithmetic of a run on several nodes: what is sent, how often something dies, what is left.

Pure functions of numbers, in bytes and seconds. What is sent is what `ttf.world.gloo` sends: an
all-to-all of whole subtrees of the step's shards, then a ring of slices.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from ttf.world.tree import nodes_of, shards_of

FLOAT: Final = 4
DAY_S: Final = 86_400.0
# Of an entry of a candidate table: an int64 row and a float32 score.
ENTRY: Final = 12
# From a death that is noticed to the next step, without the wait for the notice: 0.5 s of the
# supervisor, 0.8 s for torch, 1 to 3 s to meet, then reading the checkpoint.
RESTART_S: Final = 6.0
# What a checkpoint costs the training that goes on beside it: a copy of weights and moments.
LEAST_SNAPSHOT_S: Final = 0.05


@dataclass(frozen=True, kw_only=True)
class Shape:
    """`nodes` hosts with `ranks` processes each, which share the `shards` of a step."""

    nodes: int = 1
    ranks: int = 1
    shards: int = 1

    @property
    def world(self) -> int:
        return self.nodes * self.ranks

    @property
    def most_shards(self) -> int:
        """Of one process."""
        return -(-self.shards // self.world)

    @property
    def largest_share(self) -> float:
        """Of a step: what the process with the most shards computes."""
        return self.most_shards / self.shards


@dataclass(frozen=True, kw_only=True)
class Link:
    """What a connection between two processes gives. `latency_s`: one way."""

    bytes_per_s: float
    latency_s: float
    source: str = ""


# --- the exchange of a step -------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Sent:
    """Bytes in the busier direction, and how often one message waits for another."""

    by_rank: int = 0  # of the busiest process
    by_node: int = 0  # of the busiest node, over the network
    hops: int = 0

    def __add__(self, other: Sent) -> Sent:
        return Sent(
            by_rank=self.by_rank + other.by_rank,
            by_node=self.by_node + other.by_node,
            hops=self.hops + other.hops,
        )


def summed(shape: Shape, floats: int) -> Sent:
    """A sum over all shards of vectors of so many floats, as `World.total` sends them.

    With shards that the processes share evenly, that is the volume of a ring, 2 P (W - 1) / W:

    >>> summed(Shape(nodes=4, shards=8), 1_000_000).by_rank
    6000000

    Otherwise some of them send more than one subtree:

    >>> summed(Shape(nodes=3, shards=8), 900_000).by_rank
    7200000
    """
    world = shape.world
    if world == 1:
        return Sent()
    slice_bytes = FLOAT * -(-floats // world)
    counts = [len(nodes_of(shards_of(rank, world, shape.shards))) for rank in range(world)]
    ring = (world - 1) * slice_bytes
    total = sum(counts)
    by_rank = max(
        max((world - 1) * own * slice_bytes, (total - own) * slice_bytes) for own in counts
    )
    by_node = 0
    if shape.nodes > 1:
        others = world - shape.ranks
        for first in range(0, world, shape.ranks):
            own = sum(counts[first : first + shape.ranks])
            out, into = own * others * slice_bytes, shape.ranks * (total - own) * slice_bytes
            by_node = max(by_node, out, into)
        by_node += ring  # the ring crosses a node's border once in each direction
    # The all-to-all sends at once; the ring in W - 1 hops (gloo, alltoallv.cc and allgather.cc).
    return Sent(by_rank=by_rank + ring, by_node=by_node, hops=world)


def joined(shape: Shape, floats: int) -> Sent:
    """Rows of all shards, so many floats together, for everybody, as `World.joined` sends them.

    >>> joined(Shape(nodes=4, shards=8), 1000)
    Sent(by_rank=3000, by_node=3000, hops=3)
    """
    world = shape.world
    # Of the rank with the most: the others pad theirs.
    part = FLOAT * -(-floats * shape.most_shards // shape.shards)
    ring = (world - 1) * part
    return Sent(by_rank=ring, by_node=ring if shape.nodes > 1 else 0, hops=world - 1)


def exchange_s(shape: Shape, sent: Sent, network: Link, local: Link) -> float:
    """How long it takes: the slower of the network and the connections within a node, and the way of
    one message for each hop."""
    if shape.nodes == 1:
        return sent.by_rank / local.bytes_per_s + sent.hops * local.latency_s
    moving = max(sent.by_node / network.bytes_per_s, sent.by_rank / local.bytes_per_s)
    return moving + sent.hops * network.latency_s


def samples_for_share(samples: int, exchange: float, compute: float, share: float) -> int:
    """How many samples a step needs for the exchange to take that share of it: the exchange is the
    same for every number of samples.

    >>> samples_for_share(512, 0.1, 0.4, 0.05)
    2432
    """
    return math.ceil(samples * exchange * (1 - share) / (share * compute)) if compute else samples


def straggling(sigma: float, world: int) -> float:
    """The expected delay of the slowest of so many, each with a deviation of `sigma`, in its unit.

    >>> round(straggling(0.01, 8), 4)
    0.0204
    """
    return sigma * math.sqrt(2 * math.log(world)) if world > 1 else 0.0


# --- mining -----------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Round:
    """One mining round: so many queries against so many documents; `entries` are found per query."""

    queries: int
    rows: int
    dim: int
    entries: int
    bytes_per_value: int = 2

    @property
    def flop(self) -> float:
        return 2.0 * self.rows * self.dim * self.queries

    @property
    def bank_bytes(self) -> float:
        return float(self.rows * self.dim * self.bytes_per_value)


@dataclass(frozen=True, kw_only=True)
class Node:
    """What one node computes, reads and holds. `bank_memory`: page cache for documents."""

    flops: float
    disk_bytes_per_s: float
    bank_memory: float
    query_memory: float  # for queries and what was found for them so far


@dataclass(frozen=True, kw_only=True)
class Mined:
    seconds: float
    sent: float  # by one node, over the network
    by_rows: bool  # each node searches its rows for all queries; else all rows for its queries
    passes: int  # over the documents


def mined(work: Round, nodes: int, node: Node, network: Link, *, first: bool) -> Mined:
    """`first`: nothing of the bank is in memory yet."""
    by_rows = nodes > 1 and work.bank_bytes > node.bank_memory
    of_node = work.queries if by_rows else -(-work.queries // nodes)
    read = work.bank_bytes / nodes if by_rows else work.bank_bytes
    # A query, its rounded copy and error; and twice the entries, which are sorted now and then.
    held = of_node * (8 * work.dim + 20 * work.entries)
    passes = max(1, math.ceil(held / node.query_memory))
    fits = read <= node.bank_memory
    times = int(first) if fits else passes
    computing = work.flop / (nodes * node.flops)
    reading = times * read / node.disk_bytes_per_s
    # Everybody gets the whole table; with divided rows the queries before, and parts of it twice.
    answers = ENTRY * work.queries * work.entries
    told = answers * 2 + FLOAT * work.queries * work.dim if by_rows else answers
    sent = told * (nodes - 1) / nodes
    moving = sent / network.bytes_per_s
    return Mined(
        seconds=max(computing, reading) + moving, sent=sent, by_rows=by_rows, passes=passes
    )


# --- deaths and checkpoints -------------------------------------------------------------------------


def mtbf_s(nodes: int, per_node_day: float) -> float:
    """Mean time between two interruptions of a run that needs all its nodes.

    >>> [round(mtbf_s(n, 6.5e-3) / 3600, 1) for n in (4, 64, 1000)]
    [923.1, 57.7, 3.7]
    """
    return DAY_S / (nodes * per_node_day)


def interval_s(cost_s: float, mtbf: float, restart_s: float) -> float:
    """The best time between two checkpoints: Young and Daly, with the time of a restart
    (https://arxiv.org/abs/2410.18124).

    >>> [round(interval_s(0.05, mtbf_s(n, 6.5e-3), 20)) for n in (4, 64, 1000)]
    [577, 144, 37]
    """
    return cost_s + math.sqrt(2 * cost_s * (mtbf + restart_s) + cost_s**2)


def waste(cost_s: float, interval: float, mtbf: float, restart_s: float) -> float:
    """The share of time that checkpoints, repeated steps and restarts take.

    >>> round(waste(0.05, 37, mtbf_s(1000, 6.5e-3), 20), 4)
    0.0042
    """
    return min(1.0, cost_s / interval + (interval / 2 + restart_s) / mtbf)


def goodput(wasted: float, *overheads: float) -> float:
    """The share of time in which steps make progress, after shares of a step's time.

    >>> round(goodput(0.01, 0.05, 0.02), 4)
    0.9207
    """
    return max(0.0, (1 - wasted) * (1 - sum(overheads)))
