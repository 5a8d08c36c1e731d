"""What a summary says that does not depend on how the run ends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ttf.rundir.documents import GateResult, Summary
from ttf.training.checkpoint import RunState, Totals
from ttf.training.schedule import gate_results
from ttf.training.session import Session

# In the deviation of a rank whose products have other bits.
DIFFERS: Final = "computes otherwise than"


def promise(shards: int, deviations: Sequence[str]) -> str:
    """What the results are equal to; the levels are those of decision 0033."""
    if any(DIFFERS in text for text in deviations):
        return "E2: equal to rounding; the hosts compute different bits"
    if shards == 1:
        return "E0: bitwise, with one process"
    return f"E1: bitwise, with any number of processes up to {shards}"


def gate_key(gate: GateResult) -> str:
    return f"{gate['at']}: {gate['need']}"


def gates_so_far(session: Session, totals: Totals) -> list[GateResult]:
    """All gates in the order of the configuration; those that are not judged yet too."""
    gates = gate_results(session.config.gates, session.decided.order)
    return [totals.gates.get(gate_key(gate), gate) for gate in gates]


def summary_facts(step: int, session: Session, state: RunState) -> Summary:
    """The part of a summary that does not depend on how the run ends (the rest: `rundir.summary`);
    totals are over all processes of the run."""
    decided = session.decided
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
        # Of one process; the peak is that of all of this host.
        "predicted_anon_mb": session.plan.peak_anon_bytes * session.world.place.local_size / 1e6,
        "memory": totals.governed.facts(session.plan.limit),
        "gates": gates_so_far(session, totals),
        "deviations": list(totals.deviations),
        "notes": list(totals.notes.values()),
        "miner": totals.miner or configured,
        "seed": config.train.seed,
        "shards": config.train.shards,
        "promise": promise(config.train.shards, totals.deviations),
        "world_size": session.world.size,
    }
