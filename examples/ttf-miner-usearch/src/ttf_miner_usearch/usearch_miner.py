"""The miner `usearch`: one graph over the bank, whose vectors may be held in half precision.

Light: what `ttf plugins list` imports is the standard library and `ttf`.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from ttf import Availability, MinerContext, MinerCost, MinerTraits, hookimpl, option

if TYPE_CHECKING:
    from ttf import Miner, MinerFactory

ITEM_BYTES: Final = {"f32": 4, "f16": 2, "bf16": 2}


@dataclass(frozen=True, kw_only=True)
class UsearchOptions:
    connectivity: int = option(
        32, "links per row; the lowest level has twice as many", ge=2, le=512
    )
    expansion_add: int = option(128, "candidates compared per row during the build", ge=1)
    expansion_search: int = option(256, "candidates compared per query; at least k", ge=1)
    dtype: Literal["f32", "f16", "bf16"] = option(
        "f32", "what the index holds; f16 and bf16 halve its memory, and scores stay float32"
    )


class UsearchFactory:
    name = "usearch"
    options_type = UsearchOptions

    def availability(self) -> Availability:
        if importlib.util.find_spec("usearch") is None:
            return Availability(
                ok=False, reason="usearch is not installed", fix="pip install usearch"
            )
        return Availability(ok=True)

    def traits(self, options: UsearchOptions, context: MinerContext) -> MinerTraits:
        return MinerTraits(
            exact=False,
            deterministic=build_threads(context) == 1,
            has_index=True,
            native=("usearch", "numkong"),
        )

    def estimate(
        self,
        rows: int,
        dim: int,
        queries: int,
        k: int,
        options: UsearchOptions,
        context: MinerContext,
    ) -> MinerCost:
        from ttf_miner_usearch import _cost

        return _cost.estimate(rows, dim, queries, k, options, context)

    def create(self, options: UsearchOptions, context: MinerContext) -> Miner:
        from ttf_miner_usearch._index import UsearchMiner

        return UsearchMiner(options, context)


def build_threads(context: MinerContext) -> int:
    """One where answers must not differ: which of two threads links its row first decides the
    graph, and usearch has no seed to choose. Queries may share threads all the same."""
    return 1 if context.deterministic else context.threads


@hookimpl
def ttf_miner(name: str) -> MinerFactory | None:
    return UsearchFactory() if name == "usearch" else None
