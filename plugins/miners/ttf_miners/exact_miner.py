"""The miner `exact`: a blocked scan of the whole bank, where it lies. No index, recall 1.0."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING

from ttf.contracts import Availability, MinerContext, MinerCost, MinerTraits
from ttf.hookspecs import hookimpl
from ttf.options import NoOptions

if TYPE_CHECKING:
    from ttf.contracts import Miner, MinerFactory

# Scores per second, per thread and per multiply-add pair (FLOP), selection included:
# 2 x Zen 5, AVX512, torch 2.13.0, 50,000 x 768 bank, 4,096 queries, k = 200, 2026-11-18.
FLOPS_PER_THREAD = 1.0e11


class ExactFactory:
    name = "exact"
    options_type = NoOptions

    def availability(self) -> Availability:
        if importlib.util.find_spec("torch") is None:
            return Availability(ok=False, reason="torch is missing", fix="pip install torch")
        return Availability(ok=True)

    def traits(self, options: NoOptions, context: MinerContext) -> MinerTraits:
        return MinerTraits(exact=True, deterministic=True, has_index=False, needs_torch=True)

    def estimate(
        self, rows: int, dim: int, queries: int, k: int, options: NoOptions, context: MinerContext
    ) -> MinerCost:
        flops = 2.0 * rows * dim * queries
        return MinerCost(
            build_s=0.0,
            search_s=flops / (FLOPS_PER_THREAD * context.threads),
            anon_bytes=min(context.budget_bytes, (32 << 20) + queries * (4 * dim + 24 * k)),
            disk_bytes=0,
        )

    def create(self, options: NoOptions, context: MinerContext) -> Miner:
        from ttf_miners._exact_scan import ExactMiner

        return ExactMiner(context)


@hookimpl
def ttf_miner(name: str) -> MinerFactory | None:
    return ExactFactory() if name == "exact" else None
