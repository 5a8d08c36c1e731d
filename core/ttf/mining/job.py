"""Mining jobs and their answers, as JSON between processes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from ttf.contracts import MinerContext
from ttf.data.sources import VectorRef

Isolation = Literal["process", "none"]


@dataclass(frozen=True, kw_only=True)
class IndexRecord:
    """The index that a run searched, and its origin; JSON in the run's `index/index.json`. The
    index itself stays in the cache."""

    key: str
    origin: Literal["built", "reused"]
    path: str | None  # None: it could not be stored, and was used from memory.
    size_bytes: int
    sha256: Mapping[str, str]
    made_from: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class MinerChoice:
    """A miner and its options, e.g. a fallback."""

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class MiningJob:
    """The k nearest bank rows of every query of a file."""

    bank: VectorRef
    queries: str  # A .npy file, float32 (Q, D).
    k: int
    miner: str
    options: Mapping[str, Any] = field(default_factory=dict)
    context: MinerContext
    out: str  # Folder for ids.npy and scores.npy; unfinished results of an equal job are continued.
    # A .npy file, float32 (Q,): only rows whose score is below count. A miner that cannot look below a
    # score finds the `k_nearest` best rows instead.
    ceilings: str | None = None
    k_nearest: int = 0
    within: int | None = None  # With ceilings: only of the so many nearest rows.
    # Folder of the index cache, and the index stays ready for the next job; None: an index is built
    # and thrown away, because its bank is.
    cache: str | None = None

    def with_miner(self, choice: MinerChoice) -> MiningJob:
        return replace(self, miner=choice.name, options=choice.options)


@dataclass(frozen=True, kw_only=True)
class MiningReport:
    """How a job went; the answers are in the two files."""

    miner: str
    bank_rows: int
    queries: int
    k: int
    build_s: float
    search_s: float
    continued_from: int  # Queries that an earlier attempt had already answered.
    index: IndexRecord | None
    key: str  # A hash of everything the answers depend on.
    ids_path: str
    scores_path: str
    deaths: tuple[str, ...] = ()  # Failures survived on the way, one message each.
    # Exact miners only: the share of queries whose first scan certified the answer.
    certificate_rate: float | None = None
    rescanned: int = 0  # Queries that were scanned again, to be certain.
    below: bool = False  # Of the rows below the job's ceilings.

    @property
    def reused_index(self) -> bool:
        return self.index is not None and self.index.origin == "reused"
