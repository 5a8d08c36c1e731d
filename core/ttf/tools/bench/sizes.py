"""The sizes of the benches: the issue's reference shape, a quick one, and the smallest that works."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final


@dataclass(frozen=True, kw_only=True)
class Size:
    """`repeats` pairs are compared after one warm-up round."""

    repeats: int
    micro_batch: int
    accumulate: int
    peer_micro_batches: int  # per turn of a peer: its time per sample does not depend on the number
    pairs: int
    length: int
    dim: int
    hidden: int
    memory_bank: int
    scan_rows: int
    scan_dim: int
    scan_queries: int
    scan_k: int
    files_mb: int  # the stored array that rows are gathered from
    gather_rows: int
    turn_s: float  # short operations are repeated until a turn takes about this long


REFERENCE: Final = Size(
    repeats=5,
    micro_batch=32,
    accumulate=16,
    peer_micro_batches=2,
    pairs=1024,
    length=100,
    dim=768,
    hidden=512,
    memory_bank=50_000,
    scan_rows=100_000,
    scan_dim=384,
    scan_queries=4096,
    scan_k=200,
    files_mb=300,
    gather_rows=512,
    turn_s=0.1,
)
QUICK: Final = replace(
    REFERENCE,
    repeats=3,
    accumulate=4,
    peer_micro_batches=1,
    pairs=256,
    length=50,
    memory_bank=20_000,
    scan_rows=20_000,
    scan_queries=2048,
    scan_k=100,
    files_mb=60,
    gather_rows=256,
    turn_s=0.03,
)
TINY: Final = Size(
    repeats=2,
    micro_batch=4,
    accumulate=2,
    peer_micro_batches=1,
    pairs=16,
    length=5,
    dim=16,
    hidden=8,
    memory_bank=32,
    scan_rows=600,
    scan_dim=16,
    scan_queries=32,
    scan_k=10,
    files_mb=1,
    gather_rows=8,
    turn_s=0.001,
)
SIZES: Final = {"reference": REFERENCE, "quick": QUICK, "tiny": TINY}
