"""What ttf imports of this package: the miner's name, its options, its traits and its cost.

ttf imports this module whenever the miner is named, if only to show its options: it imports the
standard library and `ttf` alone. numpy and your library are imported by `_index`.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from ttf import Availability, MinerContext, MinerCost, MinerTraits, hookimpl, option

if TYPE_CHECKING:
    from ttf import Miner, MinerFactory

LIBRARIES = ("numpy",)
"""What `_index` imports. YOUR LIBRARY: add its module."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """Set as `--set miner.your-name.block_rows=8192`, or in a file under [miner.your-name]."""

    block_rows: int = option(
        4096, "rows of the bank compared at a time", unit="rows", ge=1, le=2**20
    )
    query_rows: int = option(128, "queries compared at a time", unit="queries", ge=1, le=2**20)
    sums: Literal["float64", "float32"] = option(
        "float64",
        (
            "float64: equal rows get equal scores; float32: twice as fast, but equal rows may "
            "get different scores"
        ),
    )


class Factory:
    """Every row of the bank is compared; the rows are kept in memory as float32."""

    name = "your-name"
    options_type = Options

    def availability(self) -> Availability:
        for library in LIBRARIES:
            if importlib.util.find_spec(library) is None:
                return Availability(
                    ok=False, reason=f"{library} is not installed", fix=f"pip install {library}"
                )
        return Availability(ok=True)

    def traits(self, options: Options, context: MinerContext) -> MinerTraits:
        return MinerTraits(
            # YOUR LIBRARY: exact=False if it may miss rows; then the tests ask for `recall_floor`.
            exact=options.sums == "float64",
            deterministic=True,
            has_index=True,
            # YOUR LIBRARY: native=("thelibrary",) if it brings machine code, for `ttf doctor`.
        )

    def estimate(
        self,
        rows: int,
        dim: int,
        queries: int,
        k: int,
        options: Options,
        context: MinerContext,
    ) -> MinerCost:
        # YOUR LIBRARY: rates measured once, on any machine; never a timing made here.
        rate = (2e10 if options.sums == "float64" else 4e10) * context.threads
        size = index_bytes(rows, dim)
        return MinerCost(
            build_s=size / 1e9,
            search_s=2.0 * rows * dim * queries / rate + 5e-9 * rows * queries,
            anon_bytes=size,
            disk_bytes=size,
        )

    def create(self, options: Options, context: MinerContext) -> Miner:
        from ._index import YourNameMiner

        return YourNameMiner(options, context)


def index_bytes(rows: int, dim: int) -> int:
    """Memory that the index of such a bank takes."""
    return 4 * rows * dim


@hookimpl
def ttf_miner(name: str) -> MinerFactory | None:
    return Factory() if name == Factory.name else None
