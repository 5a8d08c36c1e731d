"""The miner `exact`: a blocked scan of the whole bank, where it lies. No index, recall 1.0."""

from __future__ import annotations

import importlib.util

from ttf import (
    Availability,
    Miner,
    MinerContext,
    MinerCost,
    MinerFactory,
    MinerTraits,
    NoOptions,
    hookimpl,
    processor,
)

# Processor time per thread: the product, the maxima of groups, and per query and answer the sorting
# and scoring of what is left. 2 x Zen 5, AVX512-BF16, torch 2.13.0, 50,000 to 300,000 rows of 64 to
# 768, 2,048 queries, k = 20 and 200, 2026-11-18: the bf16 figures within about 25%.
FLOPS_PER_S = {"bf16": 4.9e11, "fp32": 2.1e11}
PER_SCORE_S = {"bf16": 0.3e-9, "fp32": 0.5e-9}
PER_QUERY_S = 20e-6
PER_ANSWER_S = 0.55e-6


class ExactFactory:
    name = "exact"
    options_type = NoOptions

    def availability(self) -> Availability:
        if importlib.util.find_spec("torch") is None:
            return Availability(ok=False, reason="torch is not installed", fix="pip install torch")
        return Availability(ok=True)

    def traits(self, options: NoOptions, context: MinerContext) -> MinerTraits:
        return MinerTraits(
            exact=True, deterministic=True, has_index=False, needs_torch=True, looks_below=True
        )

    def estimate(
        self, rows: int, dim: int, queries: int, k: int, options: NoOptions, context: MinerContext
    ) -> MinerCost:
        first = "bf16" if processor().bf16_unit else "fp32"
        per_row_s = 2.0 * dim / FLOPS_PER_S[first] + PER_SCORE_S[first]
        per_query_s = rows * per_row_s + PER_QUERY_S + PER_ANSWER_S * min(k, rows)
        per_query = 8 * dim + 18 * max(4 * k, 1024) + 12 * k
        held = min(queries, context.queries_at_once) * per_query + rows * (dim // 16 + 8)
        return MinerCost(
            build_s=0.0,
            search_s=queries * per_query_s / context.threads,
            anon_bytes=min(context.budget_bytes, (32 << 20) + held),
            disk_bytes=0,
        )

    def create(self, options: NoOptions, context: MinerContext) -> Miner:
        from ttf_miners._exact_scan import ExactMiner

        return ExactMiner(context)


@hookimpl
def ttf_miner(name: str) -> MinerFactory | None:
    return ExactFactory() if name == "exact" else None
