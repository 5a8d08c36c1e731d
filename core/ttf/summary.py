"""summary.json: how a run ended and what came of it; the keys are the outer contract's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from ttf.deciding import Decided
from ttf.errors import ExitCode, TtfError
from ttf.runstate import RunState


@dataclass(kw_only=True)
class Ending:
    """How a run ended; a fault of ours until something better is known."""

    status: str = "failed"
    exit_code: int = ExitCode.OUR_FAULT
    problem: str = ""
    hint: str = ""
    """What the user can do about it."""
    weights_sha256: str | None = None

    @classmethod
    def of(cls, error: TtfError, status: str = "failed") -> Self:
        return cls(status=status, exit_code=error.exit_code, problem=str(error), hint=error.hint)


def summarize(ending: Ending, step: int, decided: Decided, state: RunState) -> dict[str, Any]:
    """Totals are those of all processes of the run."""
    config, totals, selection = decided.config, state.totals, state.selection
    samples = step * decided.plan.samples
    configured = config.miner.name if config.miner.negatives else ""
    return {
        "status": ending.status,
        "exit_code": int(ending.exit_code),
        "problem": ending.problem,
        "hint": ending.hint,
        "steps": step,
        "epochs": step / decided.order.steps_per_epoch,
        "samples": samples,
        "metrics": selection.final,
        "metrics_initial": selection.initial,
        "metrics_last": selection.last,
        "best_step": selection.best_step,
        "kept_step": selection.final_step if ending.status == "finished" else None,
        "chosen_by": config.evaluate.metric,
        "samples_per_s": samples / totals.train_s if totals.train_s else 0.0,
        "wall_s": totals.wall_s,
        "peak_anon_mb": totals.peak_bytes / 1e6,
        "exact": not totals.deviations,
        "deviations": totals.deviations,
        "restarts": 0,
        "incidents": [],
        "miner": totals.miner or configured,
        "weights_sha256": ending.weights_sha256,
        "seed": config.train.seed,
    }
