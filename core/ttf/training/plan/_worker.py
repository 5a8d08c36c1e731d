"""What the miner's own process takes."""

from __future__ import annotations

from collections.abc import Iterator

from ttf.training.plan._model import Choices, Item

MB = 10**6
# The miner's process with numpy and its library, or with torch; idle between two rounds.
WORKER_BYTES, WORKER_TORCH_BYTES = 30 * MB, 155 * MB
# From its start to its first answer, imports included.
WORKER_START_S, WORKER_TORCH_START_S = 0.5, 2.0
# Packing buffers and kernels of torch's libraries; packing buffers of numpy's, while it searches.
TORCH_SCRATCH, NUMPY_SCRATCH = 16 * MB, 32 * MB


def worker_items(choices: Choices) -> Iterator[Item]:
    # Lives from the first round to the end, with the trainer's thread count.
    base, start, libraries = WORKER_BYTES, WORKER_START_S, "python, numpy and its library"
    scratch = NUMPY_SCRATCH
    if choices.miner_needs_torch:
        base, start, libraries = WORKER_TORCH_BYTES, WORKER_TORCH_START_S, "python and torch"
        scratch = TORCH_SCRATCH
    yield Item(
        component=f"miner {choices.miner}, its process",
        phase="always",
        anon_bytes=base,
        seconds=start,
        why=f"{libraries}; {start:g} s to start",
    )
    yield Item(
        component=f"miner {choices.miner}, scratch",
        phase="mining",
        anon_bytes=scratch * choices.threads,
        why=f"{scratch // MB} MB per thread",
        lower=fewer_threads(choices),
    )


def fewer_threads(choices: Choices) -> str:
    return f"--threads (now {choices.threads})" if choices.threads > 1 else ""
