"""Which miner `auto` is, and what a run grants it: threads, seed, memory, time.

The exact scan is taken until an index pays for its building.

An index is weighed with all it costs a run: built once (a frozen bank's is cached), then searched in
every refresh. It is taken below a third of the exact scan's cost, and where it is expected to find
0.95 of the true best. Why a third: both estimates are held, by a test, within a factor of the root of
three of what was measured, so that an index that is taken really is the faster one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from ttf.contracts import MinerContext, MinerCost, MinerFactory
from ttf.errors import ConfigError, PluginBroken, PluginUnavailable
from ttf.host import plugins
from ttf.machine.memory.limits import budget_bytes as memory_budget
from ttf.text.numbers import size

if TYPE_CHECKING:
    from ttf.config.schema import MinerConfig, RunConfig
    from ttf.mining.job import MiningJob

AUTO: Final = "auto"
EXACT: Final = "exact"
MUST_BE_BELOW: Final = 1 / 3
"""Of the exact scan's cost."""
LEAST_RECALL: Final = 0.95
DEADLINE_FACTOR: Final = 20.0
SHORTEST_DEADLINE_S: Final = 600.0
_FEW_QUERIES: Final = 512
_NO_LIMIT: Final = 1 << 62


@dataclass(frozen=True, kw_only=True)
class Workload:
    """What a run asks of its miner."""

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
    """The miner's name, and a sentence with the figures; empty where it was asked for by name.

    `auto` weighs the miners that come with ttf by static estimates, so that two runs choose alike,
    whatever else is installed.
    """
    if miner.name != AUTO:
        return miner.name, ""
    work = Workload(rows=rows, dim=dim, queries=queries, k=miner.k, refreshes=refreshes)
    context = MinerContext(
        threads=threads, seed=seed, deterministic=miner.deterministic, budget_bytes=budget_bytes
    )
    exact = Offer(name=EXACT, cost=estimate(EXACT, miner.options_of(EXACT), work, context))
    offers = []
    for other in plugins.ours("miner"):
        cost = _if_approximate(other, miner.options_of(other), work, context)
        if cost is not None:
            offers.append(Offer(name=other, cost=cost))
    fitting = [offer for offer in offers if offer.cost.anon_bytes <= budget_bytes]
    chosen = winner(exact, fitting, refreshes)
    return chosen.name, _sentence(exact, offers, work, budget_bytes)


@dataclass(frozen=True, kw_only=True)
class Offer:
    """A miner and what it costs; figures may be estimated, or measured."""

    name: str
    cost: MinerCost

    def total_s(self, refreshes: int) -> float:
        return self.cost.build_s + refreshes * self.cost.search_s


def winner(exact: Offer, offers: Sequence[Offer], refreshes: int) -> Offer:
    """The cheapest index that finds enough, where that is cheap enough; else the exact scan."""
    best = _best(offers, refreshes)
    pays = best is not None and best.total_s(refreshes) < MUST_BE_BELOW * exact.total_s(refreshes)
    return best if best is not None and pays else exact


def estimate(
    name: str, options: Mapping[str, Any], work: Workload, context: MinerContext
) -> MinerCost:
    """The cost of one miner with these (unvalidated) options."""
    factory = plugins.usable("miner", name)
    return factory.estimate(
        work.rows, work.dim, work.queries, work.k, checked_options(factory, options), context
    )


def checked_options(factory: MinerFactory, options: Mapping[str, Any]) -> Any:
    """An instance of the miner's options type. Raises ConfigError with every problem."""
    if not options:
        return factory.options_type()
    from ttf.host.options import validate

    instance, problems = validate(factory.options_type, options, f"miner.{factory.name}")
    if instance is None:
        raise ConfigError(
            f"The options of the miner {factory.name!r} are wrong.", problems=problems
        )
    return instance


def deadlines(
    rows: int, dim: int, queries: int, configured: float | str = AUTO
) -> Callable[[MiningJob], float]:
    """Seconds a job may take: as configured, or a multiple of what its miner is expected to."""

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
    """What to say where a miner without an index takes more than the budget even for one pass of
    few queries; empty otherwise. One with an index refuses by itself, with its own figure."""
    factory = plugins.usable("miner", name)
    if factory.traits(checked_options(factory, options), context).has_index:
        return ""
    few = replace(work, queries=min(work.queries, _FEW_QUERIES))
    free = replace(context, budget_bytes=_NO_LIMIT)
    least = estimate(name, options, few, free).anon_bytes
    if least <= context.budget_bytes:
        return ""
    return (
        f"The memory budget of {size(context.budget_bytes)} is less than the miner {name!r} "
        f"can work with: it will use about {size(least)}."
    )


def _if_approximate(
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
        text += f", {best.name} about {best.total_s(work.refreshes):,.0f} s with its building"
        if winner(exact, fitting, work.refreshes) is exact:
            text += " (an index is taken below a third of the exact scan)"
    poor = [offer for offer in fitting if offer.cost.recall < LEAST_RECALL]
    if poor:
        found = ", ".join(f"{offer.name} ({offer.cost.recall:.2f})" for offer in poor)
        text += f"; expected to find less than {LEAST_RECALL} of the best: {found}"
    if large:
        sizes = (f"{offer.name} ({size(offer.cost.anon_bytes)})" for offer in large)
        text += f"; beyond the memory budget: {', '.join(sizes)}"
    return text


def miner_threads(miner: MinerConfig, trainer_threads: int) -> int:
    """`miner.threads`; "auto" is as many as the trainer has."""
    return trainer_threads if isinstance(miner.threads, str) else miner.threads


def miner_context(config: RunConfig, trainer_threads: int) -> MinerContext:
    """For every place that mines for a run, or estimates what that takes."""
    return MinerContext(
        threads=miner_threads(config.miner, trainer_threads),
        seed=config.train.seed,
        deterministic=config.miner.deterministic,
        budget_bytes=memory_budget(config.memory.budget),
    )
