"""The plan of a run on several nodes: exchange, mining, network, interruptions, goodput."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ttf.errors import ConfigError
from ttf.machine.measured import kept_ceilings
from ttf.machine.memory.limits import budget_bytes as memory_budget
from ttf.training.plan import scale
from ttf.training.plan._model import Plan
from ttf.training.plan._predict import mined_queries, step_documents
from ttf.training.plan._rates import LOCAL, Rates, kept_link, rates
from ttf.training.plan.scale import Link, Node, Round, Sent, Shape

if TYPE_CHECKING:
    from ttf.config.schema import RunConfig

# Of the time that a rank computes in a step, as a standard deviation between ranks.
_UNEVEN: Final = 0.01
_WANTED_SHARE: Final = 0.05
_SNAPSHOT: Final = 12  # bytes per trained weight: itself and two moments


@dataclass(frozen=True, kw_only=True)
class ScalePlan:
    """A prediction for several nodes; seconds and bytes."""

    shape: Shape
    exchange_bytes: int  # of the busiest rank, in a step
    exchange_s: float
    compute_s: float  # of a step, on the rank with the most shards
    straggling_s: float
    samples_for_less: int  # of a step, for a share of 5%
    mining_s: float  # in the whole run
    mining: str  # how it is divided; '' without mining
    network_bytes: int  # sent by the busiest node in the whole run
    mtbf_s: float
    restart_s: float
    checkpoint_s: float
    checkpoint_cost_s: float
    wasted: float
    goodput: float
    seconds: float  # of the whole run, with what is wasted
    node_anon_bytes: int  # of all processes of a node, at most
    fits: bool
    network: Link
    rates: Rates
    deaths_per_node_day: float

    @property
    def step_s(self) -> float:
        return self.compute_s + self.straggling_s + self.exchange_s

    @property
    def exchange_share(self) -> float:
        return self.exchange_s / self.step_s if self.step_s else 0.0

    def to_json(self) -> dict[str, Any]:
        return {
            "nodes": self.shape.nodes,
            "ranks": self.shape.ranks,
            "shards": self.shape.shards,
            "exchange_bytes": self.exchange_bytes,
            "exchange_s": self.exchange_s,
            "exchange_share": self.exchange_share,
            "compute_s": self.compute_s,
            "straggling_s": self.straggling_s,
            "mining_s": self.mining_s,
            "network_bytes": self.network_bytes,
            "mtbf_s": self.mtbf_s,
            "restart_s": self.restart_s,
            "checkpoint_s": self.checkpoint_s,
            "wasted": self.wasted,
            "goodput": self.goodput,
            "seconds": self.seconds,
            "node_anon_bytes": self.node_anon_bytes,
            "fits": self.fits,
            "assumed": {
                "network": self.network.source,
                "processor": self.rates.source,
                "disk": self.rates.disk_source,
                "deaths_per_node_day": self.deaths_per_node_day,
            },
        }


def shape_of(shards: int, nodes: int, ranks: int) -> Shape:
    """Raises ConfigError."""
    if nodes * ranks > shards:
        raise ConfigError(
            f"{nodes * ranks} processes cannot share the {shards} shards of a step (train.shards).",
            hint=f"Use at most {shards} ranks, or start a new run with --set train.shards="
            f"{1 << (nodes * ranks - 1).bit_length()}.",
        )
    return Shape(nodes=nodes, ranks=ranks, shards=shards)


def scale_plan(plan: Plan, config: RunConfig, shape: Shape) -> ScalePlan:
    """From the plan of one process, with its share of the node's threads. Reads what was measured on
    this machine."""
    network, rank_rates = kept_link(config.scale), rates(plan, kept_ceilings())
    node_rates = rank_rates.times(shape.ranks)
    sent = _sent(plan, config, shape)
    exchange_s = scale.exchange_s(shape, sent, network, LOCAL)
    flop = _training_flop(plan) / plan.choices.total_steps
    compute_s = flop * shape.largest_share / rank_rates.training
    straggling_s = scale.straggling(_UNEVEN * compute_s, shape.world)
    step_s = compute_s + straggling_s + exchange_s
    mining = _mining(plan, config, shape, network, node_rates)
    mtbf = scale.mtbf_s(shape.nodes, config.scale.deaths_per_node_day)
    # A host that loses its power is noticed by the time limit of the exchange alone.
    restart_s = config.scale.exchange_timeout_s + scale.RESTART_S
    cost_s = max(
        scale.LEAST_SNAPSHOT_S, _SNAPSHOT * plan.choices.trained_parameters / node_rates.copy
    )
    interval = scale.interval_s(cost_s, mtbf, restart_s)
    wasted = scale.waste(cost_s, interval, mtbf, restart_s)
    training_s = plan.choices.total_steps * step_s
    whole = training_s + mining.seconds + _rest_s(plan, shape)
    held = shape.ranks * plan.peak_anon_bytes
    return ScalePlan(
        shape=shape,
        exchange_bytes=sent.by_rank,
        exchange_s=exchange_s,
        compute_s=compute_s,
        straggling_s=straggling_s,
        samples_for_less=scale.samples_for_share(
            plan.choices.batch.samples, exchange_s, compute_s + straggling_s, _WANTED_SHARE
        ),
        mining_s=mining.seconds,
        mining=mining.how,
        network_bytes=round(plan.choices.total_steps * sent.by_node + mining.sent),
        mtbf_s=mtbf,
        restart_s=restart_s,
        checkpoint_s=interval,
        checkpoint_cost_s=cost_s,
        wasted=wasted,
        goodput=scale.goodput(wasted, exchange_s / step_s, straggling_s / step_s),
        seconds=whole / (1 - wasted) if wasted < 1 else float("inf"),
        node_anon_bytes=held,
        fits=held <= plan.limit.bytes,
        network=network,
        rates=node_rates,
        deaths_per_node_day=config.scale.deaths_per_node_day,
    )


def _sent(plan: Plan, config: RunConfig, shape: Shape) -> Sent:
    """All that `ttf.training.sharded_step` sends in a step: sums of gradients, losses, and vectors
    where others need them."""
    choices, dim = plan.choices, plan.facts.doc_dim
    parameters, samples = choices.trained_parameters, choices.batch.samples
    sent = scale.joined(shape, samples)  # the losses
    documents = 0 if choices.doc_frozen else step_documents(config, plan.facts, choices) * dim
    if documents:
        sent += scale.joined(shape, documents)
    if config.train.grad_cache is True:
        return sent + scale.joined(shape, samples * dim) + scale.summed(shape, parameters)
    if config.miner.keeps_queries and choices.miner:
        sent += scale.joined(shape, samples * dim)
    if documents:  # the gradients of their vectors, then those of their tower
        sent += scale.summed(shape, parameters)
    return sent + scale.summed(shape, parameters + documents)


def _training_flop(plan: Plan) -> float:
    seconds = sum(i.seconds for i in plan.items if i.component == "training")
    return seconds * plan.gflops_per_thread * 1e9 * plan.choices.threads


def _rest_s(plan: Plan, shape: Shape) -> float:
    # Evaluations are divided among the nodes; the calibration after the training is one node's.
    evaluations = sum(i.seconds for i in plan.items if i.phase == "evaluation")
    return evaluations / shape.nodes + sum(
        i.seconds for i in plan.items if i.phase == "calibration"
    )


@dataclass(frozen=True, kw_only=True)
class _Mining:
    seconds: float = 0.0
    sent: float = 0.0
    how: str = ""


def _mining(
    plan: Plan, config: RunConfig, shape: Shape, network: Link, node_rates: Rates
) -> _Mining:
    choices = plan.choices
    queries = mined_queries(plan.facts, choices)
    if not choices.miner or choices.miner_cost is None or not queries:
        return _Mining()
    work = Round(
        queries=queries,
        rows=plan.facts.bank_rows,
        dim=plan.facts.doc_dim,
        entries=config.miner.num_candidates,
        bytes_per_value=node_rates.mining_bytes,
    )
    node = Node(
        flops=node_rates.mining,
        disk_bytes_per_s=node_rates.disk,
        bank_memory=max(1.0, plan.limit.bytes - shape.ranks * plan.peak_anon_bytes),
        query_memory=float(memory_budget(config.memory.budget)),
    )
    first = scale.mined(work, shape.nodes, node, network, first=True)
    later = scale.mined(work, shape.nodes, node, network, first=False)
    encoded = 1 if config.miner.queries == "reuse" else choices.refreshes
    encoding = encoded * queries * choices.query.forward_flops
    seconds = first.seconds + (choices.refreshes - 1) * later.seconds
    how = "each node searches its rows" if first.by_rows else "each node takes its queries"
    if choices.miner != "exact":
        # What the miner says about itself, its index built on every node.
        cost = choices.miner_cost
        seconds = cost.build_s + choices.refreshes * cost.search_s / shape.nodes
        how = "each node takes its queries"
    passes = f", {first.passes} passes over its documents" if first.passes > 1 else ""
    return _Mining(
        seconds=seconds + encoding / (shape.nodes * node_rates.training),
        sent=choices.refreshes * first.sent,
        how=f"{choices.refreshes} round(s) of {queries:,} queries: {how}{passes}",
    )
