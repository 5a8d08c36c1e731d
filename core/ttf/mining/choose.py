"""Which miner `auto` is, and what a run gives it: threads, seed, memory, time.

The exact scan is used until an index pays for its building.

The cost of an index is its total for a run: built once (a frozen bank's is cached), then searched
in every refresh. An index is chosen if it costs less than a third of the exact scan, and is
expected to find 0.95 of the true best. Why a third: a test holds both estimates within a factor of
sqrt(3) of the measured costs, so a chosen index really is the faster one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from ttf.contracts import MinerContext, MinerCost, MinerFactory
from ttf.errors import ConfigError, PluginBroken, PluginUnavailable
from ttf.host import plugins
from ttf.text.numbers import size

if TYPE_CHECKING:
    from ttf.config.schema import MinerConfig, RunConfig
    from ttf.mining.job import MiningJob

AUTO: Final = "auto"
EXACT: Final = "exact"
MUST_BE_BELOW: Final = 1 / 3  # As a share of the exact scan's cost.
LEAST_RECALL: Final = 0.95
DEADLINE_FACTOR: Final = 20.0
SHORTEST_DEADLINE_S: Final = 600.0
_FEW_QUERIES: Final = 512
_NO_LIMIT: Final = 1 << 62


@dataclass(frozen=True, kw_only=True)
class Workload:
    rows: int
    dim: int
    queries: int
    k: int
    refreshes: int


def choose_miner(
    miner: MinerConfig,
    *,
    rows: int,
    dim: int,
    queries: int,
    refreshes: int,
    threads: int,
    seed: int,
    budget_bytes: int,
) -> tuple[str, str]:
    """The miner's name, and a sentence with the figures; empty if it was asked for by name.

    `auto` compares the miners of ttf by static estimates, so two runs choose alike, whatever else
    is installed.
    """
    if miner.name != AUTO:
        return miner.name, ""
    work = Workload(
        rows=rows, dim=dim, queries=queries, k=miner.num_candidates, refreshes=refreshes
    )
    context = MinerContext(
        threads=threads, seed=seed, deterministic=miner.deterministic, budget_bytes=budget_bytes
    )
    exact = Offer(name=EXACT, cost=estimate(EXACT, miner.options_of(EXACT), work, context))
    offers = []
    for other in plugins.ours("miner"):
        cost = _approximate_cost(other, miner.options_of(other), work, context)
        if cost is not None:
            offers.append(Offer(name=other, cost=cost))
    fitting = [offer for offer in offers if offer.cost.anon_bytes <= budget_bytes]
    chosen = winner(exact, fitting, refreshes)
    return chosen.name, _sentence(exact, offers, work, budget_bytes)


@dataclass(frozen=True, kw_only=True)
class Offer:
    """A miner and its cost; figures may be estimated or measured."""

    name: str
    cost: MinerCost

    def total_s(self, refreshes: int) -> float:
        return self.cost.build_s + refreshes * self.cost.search_s


def winner(exact: Offer, offers: Sequence[Offer], refreshes: int) -> Offer:
    """The cheapest index that finds enough, if it is cheap enough; else the exact scan."""
    best = _best(offers, refreshes)
    pays = best is not None and best.total_s(refreshes) < MUST_BE_BELOW * exact.total_s(refreshes)
    return best if best is not None and pays else exact


def estimate(
    name: str, options: Mapping[str, Any], work: Workload, context: MinerContext
) -> MinerCost:
    # The options are not validated yet.
    factory = plugins.usable("miner", name)
    return factory.estimate(
        work.rows, work.dim, work.queries, work.k, checked_options(factory, options), context
    )


def looks_below(name: str, options: Mapping[str, Any], context: MinerContext) -> bool:
    """True if the miner finds the best rows below a score."""
    factory = plugins.usable("miner", name)
    return factory.traits(checked_options(factory, options), context).looks_below


def asked_of(job: MiningJob) -> tuple[int, str | None]:
    """How many rows the miner of this job looks for, and the file of ceilings if it looks below
    them."""
    if job.ceilings is None or looks_below(job.miner, job.options, job.context):
        return job.k, job.ceilings
    return job.k_nearest, None


def checked_options(factory: MinerFactory, options: Mapping[str, Any]) -> Any:
    """An instance of the miner's options type. Raises ConfigError with every problem."""
    if not options:
        return factory.options_type()
    from ttf.host.options import validate

    instance, problems = validate(factory.options_type, options, f"miner.{factory.name}")
    if instance is None:
        raise ConfigError(
            f"The options of the miner {factory.name!r} are not valid.", problems=problems
        )
    return instance


def deadlines(
    rows: int, dim: int, queries: int, configured: float | str = AUTO
) -> Callable[[MiningJob], float]:
    """Returns the time limit of a job in seconds: as configured, or a multiple of the miner's
    estimate."""

    def deadline_s(job: MiningJob) -> float:
        if not isinstance(configured, str):
            return configured
        work = Workload(rows=rows, dim=dim, queries=queries, k=job.k, refreshes=1)
        cost = estimate(job.miner, job.options, work, job.context)
        return max(SHORTEST_DEADLINE_S, DEADLINE_FACTOR * (cost.build_s + cost.search_s))

    return deadline_s


def above_budget(
    name: str, options: Mapping[str, Any], work: Workload, context: MinerContext
) -> str:
    """A message if a miner without an index needs more than the budget even for one pass of few
    queries; else empty. A miner with an index refuses by itself, with its own figure."""
    factory = plugins.usable("miner", name)
    if factory.traits(checked_options(factory, options), context).has_index:
        return ""
    few = replace(work, queries=min(work.queries, _FEW_QUERIES))
    free = replace(context, budget_bytes=_NO_LIMIT)
    least = estimate(name, options, few, free).anon_bytes
    if least <= context.budget_bytes:
        return ""
    return (
        f"The memory budget is {size(context.budget_bytes)}, but the miner {name!r} needs at "
        f"least about {size(least)}."
    )


def _approximate_cost(
    name: str, options: Mapping[str, Any], work: Workload, context: MinerContext
) -> MinerCost | None:
    """The cost of an approximate miner that can run here; None for any other."""
    try:
        factory = plugins.usable("miner", name)
    except (PluginUnavailable, PluginBroken):
        return None
    chosen = checked_options(factory, options)
    if factory.traits(chosen, context).exact:
        return None
    return estimate(name, options, work, context)


def _best(offers: Sequence[Offer], refreshes: int) -> Offer | None:
    enough = [offer for offer in offers if offer.cost.recall >= LEAST_RECALL]
    return min(enough, key=lambda offer: offer.total_s(refreshes), default=None)


def _sentence(exact: Offer, offers: Sequence[Offer], work: Workload, budget_bytes: int) -> str:
    rounds = f"{work.refreshes} mining round{'s' if work.refreshes != 1 else ''}"
    exact_s = exact.total_s(work.refreshes)
    text = f"the exact scan needs about {exact_s:,.0f} s for {rounds}"
    large = [offer for offer in offers if offer.cost.anon_bytes > budget_bytes]
    fitting = [offer for offer in offers if offer not in large]
    best = _best(fitting, work.refreshes)
    if best is not None:
        text += (
            f", {best.name} needs about {best.total_s(work.refreshes):,.0f} s, including the "
            "time to build the index"
        )
        if winner(exact, fitting, work.refreshes) is exact:
            text += (
                " (ttf chooses an index only if it needs less than a third of the time of the "
                "exact scan)"
            )
    poor = [offer for offer in fitting if offer.cost.recall < LEAST_RECALL]
    if poor:
        found = ", ".join(f"{offer.name} ({offer.cost.recall:.2f})" for offer in poor)
        text += f"; these find too few of the best documents (less than {LEAST_RECALL}): {found}"
    if large:
        sizes = (f"{offer.name} ({size(offer.cost.anon_bytes)})" for offer in large)
        text += f"; these need more than the memory budget: {', '.join(sizes)}"
    return text


def miner_threads(miner: MinerConfig, trainer_threads: int) -> int:
    """`miner.threads`; "auto" is the trainer's number."""
    return trainer_threads if isinstance(miner.threads, str) else miner.threads


def miner_context(config: RunConfig, trainer_threads: int, budget_bytes: int) -> MinerContext:
    return MinerContext(
        threads=miner_threads(config.miner, trainer_threads),
        seed=config.train.seed,
        deterministic=config.miner.deterministic,
        budget_bytes=budget_bytes,
    )
