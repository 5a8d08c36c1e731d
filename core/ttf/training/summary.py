"""summary.json: how a run ended and what came of it; the keys are the outer contract's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Self

from ttf.errors import ExitCode, TtfError

if TYPE_CHECKING:
    from ttf.training.auto import Decided
    from ttf.training.checkpoint import RunState


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


def facts(step: int, decided: Decided, state: RunState) -> dict[str, Any]:
    """The part that does not depend on how the run ends; totals are those of all its processes."""
    config, totals, selection = decided.config, state.totals, state.selection
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


def summarize(
    ending: Ending,
    known: Mapping[str, Any],
    incidents: Sequence[Mapping[str, Any]],
    *,
    restarts: int,
    deviations: Sequence[str],
) -> dict[str, Any]:
    """summary.json, from `facts` and what happened to the run as a whole."""
    differ = list(dict.fromkeys([*known.get("deviations", ()), *deviations]))
    return {
        **asdict(ending),
        "exit_code": int(ending.exit_code),
        **known,
        "kept_step": known.get("kept_step") if ending.status == "finished" else None,
        "exact": not differ,
        "deviations": differ,
        "restarts": restarts,
        "incidents": list(incidents),
    }
