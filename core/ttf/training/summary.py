"""What a running trainer knows of its run's summary; the rest of it: `ttf.rundir.summary`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ttf.rundir.documents import Summary

if TYPE_CHECKING:
    from ttf.training.auto import Decided
    from ttf.training.checkpoint import RunState


def facts(step: int, decided: Decided, state: RunState) -> Summary:
    """The part that does not depend on how the run ends; totals are those of all its processes."""
    config = decided.config
    totals = state.totals
    selection = state.selection
    samples = step * decided.plan.samples
    configured = config.miner.name if config.miner.negatives else ""
    return {
        "steps": step,
        "epochs": step / decided.order.steps_per_epoch,
        "samples": samples,
        "metrics": selection.final,
        "metrics_initial": selection.initial,
        "metrics_last": selection.last,
        "best_step": selection.best_step,
        "kept_step": selection.final_step,
        "chosen_by": config.evaluate.metric,
        "samples_per_s": samples / totals.train_s if totals.train_s else 0.0,
        "wall_s": totals.wall_s,
        "peak_anon_mb": totals.peak_bytes / 1e6,
        "deviations": list(totals.deviations),
        "miner": totals.miner or configured,
        "seed": config.train.seed,
    }
