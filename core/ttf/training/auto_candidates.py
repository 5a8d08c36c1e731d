"""Which documents are a query's candidates: the nearest, or the nearest below the margins."""

from __future__ import annotations

from ttf.config.schema import MOST_CANDIDATES_OF_AUTO, RunConfig
from ttf.errors import ConfigError
from ttf.mining.choose import looks_below, miner_context
from ttf.mining.negatives import candidates_needed, has_margin


def choose_candidates(
    config: RunConfig, threads: int, budget_bytes: int, settled_before: bool
) -> tuple[str, str] | None:
    """`settled_before`: the run was begun, by a version that did not have this key."""
    if not config.miner.negatives:
        return None
    if settled_before:
        return "nearest", "an older version of ttf started this run"
    if not has_margin(config.negatives):
        return "nearest", "[negatives] has no margin"
    if config.negatives.rank_from:
        return "nearest", "negatives.rank_from is a rank among the nearest documents"
    if config.negatives.min_yield != "auto":
        return "nearest", "negatives.min_yield is judged by them"
    if not _looks_below(config, threads, budget_bytes):
        return "nearest", f"the miner {config.miner.name!r} finds nothing else"
    return "passing", (
        f"of the {nearest(config)} nearest, the miner {config.miner.name!r} finds those below the margin"
    )


def nearest(config: RunConfig) -> int:
    """How many of the nearest documents may be candidates."""
    rank_to = config.negatives.rank_to
    return MOST_CANDIDATES_OF_AUTO if rank_to is None else rank_to


def choose_k(config: RunConfig, positives: int) -> tuple[int, str] | None:
    if not config.miner.negatives:
        return None
    passing = config.miner.candidates != "nearest"
    return candidates_needed(config.negatives, positives, passing=passing)


def refuse_passing(config: RunConfig, threads: int, budget_bytes: int) -> None:
    """Raises ConfigError if candidates below the margins were asked for and cannot be had."""
    kind = config.miner.candidates
    if kind == "nearest":
        return
    asked = f'miner.candidates = "{kind}" looks for the best documents below the margins'
    if config.negatives.rank_from or (kind == "below" and config.negatives.rank_to is not None):
        raise ConfigError(
            f"{asked}, but negatives.rank_from or negatives.rank_to is set: these are ranks among the "
            "nearest of all documents.",
            hint='Remove the ranks, or use miner.candidates = "nearest".',
        )
    if not has_margin(config.negatives):
        raise ConfigError(
            f"{asked}, but negatives.relative_margin and negatives.absolute_margin are not set.",
            hint='Set one of them, or use miner.candidates = "nearest".',
        )
    if not _looks_below(config, threads, budget_bytes):
        raise ConfigError(
            f"{asked}, but the miner {config.miner.name!r} only finds the nearest of all.",
            hint='Use --miner exact, or miner.candidates = "nearest".',
        )


def _looks_below(config: RunConfig, threads: int, budget_bytes: int) -> bool:
    miner, context = config.miner, miner_context(config, threads, budget_bytes)
    return looks_below(miner.name, miner.options_of(miner.name), context)
