"""Which queries have a ceiling among so many rows that bfloat16 cannot tell where they stand.

Every row whose product is nearer to the ceiling than rounding is scored in float32. Where a sample
of the bank shows that these are many, a first pass in float32, whose rounding is a fifteenth, costs
less. The answers are the same.

Shapes: T queries, N rows of the sample.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from ttf.machine.gemm import torch_threads
from ttf.mining.scan.bf16_bank import HalfBank
from ttf.mining.scan.error_bounds import asked
from ttf.mining.scan.executors import executor
from ttf.mining.scan.score_floors import usual

_SAMPLE = 512
_TOGETHER = 1024
# Rows that cost as much to score as the product in float32 costs more than that in bfloat16: per row
# and dimension of the bank. 2 x Zen 5, AVX512-BF16, 2026-11-20.
_WORTH = 2.2e-5
_FAR = 3
_FLOORS = 1.5  # Floors are that many bounds below the ceiling.


def deep_ceilings(
    bank: HalfBank,
    queries: NDArray[np.float32],
    ceilings: NDArray[np.float32],
    room: int,
    within: int | None,
    threads: int,
) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """A mask of the queries, and how many sampled rows are above their ceilings. `room`: pairs of a
    query that a pass can hold. Queries with far more than `within` rows above their ceiling are not
    among them: their search ends early."""
    rows, dim = bank.shape
    count = min(_SAMPLE, rows)
    part = bank.some(np.arange(count) * rows // count)
    row = usual(torch.from_numpy(part.norms), torch.from_numpy(part.residuals))
    most = min(_WORTH * rows * dim, room) * count / rows
    found, above = np.zeros(len(queries), np.bool_), np.zeros(len(queries), np.int64)

    @torch.inference_mode()
    def look(start: int) -> None:
        here = slice(start, start + _TOGETHER)
        those, ceilings_T = asked(queries[here], half=True), torch.from_numpy(ceilings[here])
        error_T = those.error(row.norm[None], row.residual[None])[:, 0]
        score_NT = those.scores_by_row(part.half)[:, : len(error_T)].float()
        near_NT = score_NT >= ceilings_T - _FLOORS * error_T
        near_NT &= score_NT <= ceilings_T + error_T
        deep_T = near_NT.sum(0) > most
        above_T = (score_NT > ceilings_T + error_T).sum(0)
        above[here] = above_T.numpy()
        if within is not None:
            deep_T &= above_T * rows <= _FAR * within * count
        found[here] = deep_T.numpy()

    # A thread a tile, as in the passes: where torch shares out such small work, it mostly waits.
    with torch_threads(1), executor(threads, threads) as pool:
        for _ in pool.map(look, range(0, len(queries), _TOGETHER)):
            pass
    return found, above
