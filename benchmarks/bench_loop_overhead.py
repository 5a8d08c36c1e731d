"""What the loop costs over the bare PyTorch step it wraps.

Arm A: the real loop (gather thread, memory bank, metrics.jsonl, memory sampler, events) over a
window of steps. Arm B: the same towers, loss and optimizer on the same rows, already in memory,
with nothing around them. Windows alternate A B B A within one process; a pair is the time of an A
window over that of the B window beside it. Printed: the median ratio and its 95% bootstrap bounds.

    python benchmarks/bench_loop_overhead.py --shape gru      # (N, 100, 768), BiGRU, batch 32
    python benchmarks/bench_loop_overhead.py --shape mlp      # (N, 384), MLP, batch 1024
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import functools
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from ttf.config.resolve import resolve
from ttf.data.synth import SynthShape, write_synth
from ttf.machine import devices

SHAPES: dict[str, dict[str, Any]] = {
    "gru": {
        "data": {"pairs": 1024, "val": 32, "seq_len": 100, "dim": 768, "bank": 20_000},
        "flags": {"tower": "gru", "batch_size": 32, "memory_bank": 1000},
        "sets": ["tower.query.hidden=512", "miner.negatives=0"],
        "window": 4,
    },
    "mlp": {
        "data": {"pairs": 20_000, "val": 32, "seq_len": 1, "dim": 384, "bank": 20_000},
        "flags": {"tower": "mlp", "batch_size": 1024, "memory_bank": 10_000},
        "sets": ["tower.query.hidden=1024", "miner.negatives=0"],
        "window": 20,
    },
}


def build(folder: Path, shape: dict[str, Any], threads: int) -> Any:
    """A real run with its folder open, ready to step."""
    paths = write_synth(folder, SynthShape(seed=0, **shape["data"]))
    resolved = resolve(
        sets=shape["sets"],
        flags={
            "pairs": str(paths["pairs"]),
            "bank": str(paths["bank"]),
            "epochs": 10_000,
            **shape["flags"],
        },
    )
    policy = devices.choose("cpu", {}, threads)
    devices.prepare(policy)
    from ttf.rundir.run_folder import RunFolder
    from ttf.text.progress import Reporter
    from ttf.training.session import open_session

    return open_session(resolved, RunFolder.new(folder / "run"), policy, Reporter())


def bare_steps(session: Any, bare: Bare, start: int, count: int) -> float:
    """Seconds of the same optimizer steps with everything at hand."""
    import torch

    from ttf.training.loss.infonce import info_nce

    batches = []
    for step in range(start, start + count):
        rows = session.decided.order.rows(step)
        batch = session.data.train.batch(rows)
        targets = session.data.train.known(rows)[:, 0]
        documents = torch.from_numpy(session.parts.documents.read(targets))
        batches.append((torch.from_numpy(batch.x), documents))
    began = time.perf_counter()
    for x, documents in batches:
        bare.model.train()
        count_B = len(x)
        bare.candidates[:count_B].copy_(documents)
        target = torch.arange(count_B)
        loss = info_nce(
            bare.model.encode_queries(x),
            bare.candidates,
            target,
            scale=20.0,
            known_BP=target[:, None],
        ).mean()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(bare.model.parameters(), 1.0)
        bare.optimizer.step()
        bare.optimizer.zero_grad(set_to_none=True)
        float(loss.detach())
    return time.perf_counter() - began


class Bare:
    """The bare arm's own towers, optimizer and candidates."""

    def __init__(self, session: Any) -> None:
        import torch

        from ttf.training.optimizer import make_optimizer

        self.model = copy.deepcopy(session.parts.model)
        self.optimizer = make_optimizer(self.model, 1e-3, 0.01)
        rows = session.decided.plan.samples + session.parts.bank.capacity
        self.candidates = torch.nn.functional.normalize(
            torch.randn(rows, session.parts.documents.dim), dim=-1
        )


def loop_steps(training: Any, recorder: Any, start: int, count: int) -> float:
    """Seconds of a window of the real loop, the thread's start included."""
    from ttf import loop

    training.step = start
    began = time.perf_counter()
    with training.load(start, start + count, None) as loader:
        loop._train_window(training, recorder, loader)
    return time.perf_counter() - began


def bounds(ratios: list[float]) -> tuple[float, float, float]:
    """(median, lower, upper 95%) by bootstrap over pairs."""
    values = np.array(ratios)
    draws = np.random.default_rng(0).choice(values, (10_000, len(values)))
    low, high = np.quantile(np.median(draws, axis=1), [0.025, 0.975])
    return float(np.median(values)), float(low), float(high)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shape", choices=sorted(SHAPES), default="gru")
    parser.add_argument("--pairs", type=int, default=40)
    parser.add_argument("--threads", type=int, default=2)
    given = parser.parse_args()
    shape = SHAPES[given.shape]
    with (
        tempfile.TemporaryDirectory() as scratch,
        build(Path(scratch), shape, given.threads) as session,
        contextlib.ExitStack() as stack,
    ):
        from ttf.rundir.metrics_log import MetricsLog
        from ttf.training.trainer import Trainer

        trainer = Trainer(session, MetricsLog(session.folder.metrics, None))
        real = functools.partial(loop_steps, trainer.loop, stack.enter_context(trainer.recording()))
        bare = functools.partial(bare_steps, session, Bare(session))
        window = shape["window"]
        warm = -(-session.parts.bank.capacity // session.decided.plan.samples) + 1
        real(0, warm)
        bare(0, 3)
        step, ratios, seconds = warm, [], []
        for pair in range(given.pairs):
            if pair % 2:
                b, a = bare(step, window), real(step, window)
            else:
                a, b = real(step, window), bare(step, window)
            step += window
            ratios.append(a / b)
            seconds.append(b / window)
    median, low, high = bounds(ratios)
    print(
        f"{given.shape}: loop / bare step = {median:.4f} (95%: {low:.4f} to {high:.4f}), "
        f"{len(ratios)} pairs of {window} steps, bare step {1e3 * np.median(seconds):.1f} ms "
        f"({1e3 * np.quantile(seconds, 0.1):.1f} to {1e3 * np.quantile(seconds, 0.9):.1f}), "
        f"pairs spread {np.quantile(ratios, 0.1):.3f} to {np.quantile(ratios, 0.9):.3f}"
    )


if __name__ == "__main__":
    main()
