"""Query vectors of a split as the towers of a run compute them, in eval mode.

Shapes: Q queries, B of a micro-batch, D width.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray

from ttf.contracts import DevicePolicy, Precision, Progress
from ttf.data.dataset import Split
from ttf.data.finite import require_finite_queries
from ttf.errors import NumericFailure
from ttf.training.towers import TwoTower


@torch.no_grad()
def encode_split(
    model: TwoTower,
    split: Split,
    rows: NDArray[np.int64],
    policy: DevicePolicy,
    precision: Precision,
    micro_batch: int,
    out: NDArray[np.float32] | None = None,
    progress: Progress | None = None,
) -> NDArray[np.float32]:
    """Returns query vectors of some rows, in eval mode; `out` may be a mapped file."""
    for start, q_BD in encoded_batches(model, split, rows, policy, precision, micro_batch):
        if out is None:
            out = np.empty((len(rows), q_BD.shape[1]), dtype=np.float32)
        out[start : start + len(q_BD)] = q_BD
        if progress is not None:
            progress(start + len(q_BD), len(rows))
    assert out is not None
    return out


@torch.no_grad()
def encoded_batches(
    model: TwoTower,
    split: Split,
    rows: NDArray[np.int64],
    policy: DevicePolicy,
    precision: Precision,
    micro_batch: int,
) -> Iterator[tuple[int, NDArray[np.float32]]]:
    """Query vectors of some rows, in eval mode: the place of each micro-batch among them, and its
    vectors, which depend on nothing but its rows."""
    model.eval()
    parts = [rows[start : start + micro_batch] for start in range(0, len(rows), micro_batch)]
    if policy.constant_shapes:
        parts = [np.resize(part, micro_batch) for part in parts]
    for start, here, batch in zip(
        range(0, len(rows), micro_batch), parts, split.batches(parts), strict=True
    ):
        wanted = min(micro_batch, len(rows) - start)
        x = policy.to_device(torch.from_numpy(batch.x))
        lengths = None if batch.lengths is None else torch.from_numpy(batch.lengths)
        with policy.autocast(precision):
            q_BD = model.encode_queries(x, lengths)[:wanted].cpu()
        if not bool(torch.isfinite(q_BD.sum())):
            _blame(split, here[:wanted], batch.x[:wanted], q_BD)
        yield start, q_BD.numpy()


def _blame(
    split: Split, rows: NDArray[np.int64], x: NDArray[np.float32], q_BD: torch.Tensor
) -> None:
    require_finite_queries(split, rows, x)
    wrong = (~torch.isfinite(q_BD).all(dim=1)).nonzero()
    if len(wrong):
        raise NumericFailure(
            f"The query tower computed a vector with NaN or infinity for {split.name} row "
            f"{split.keep[rows[int(wrong[0])]]}, but the input of the tower is finite.",
            hint="The weights have probably diverged. Try a lower --lr.",
        )
