"""After a run on several processes: its exchange as measured, beside the plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ttf.rundir.exchange_facts import ExchangeSummary, measured
from ttf.rundir.run_record import RunRecord
from ttf.training.plan.scaled import scale_plan

if TYPE_CHECKING:
    from ttf.config.schema import RunConfig
    from ttf.rundir.run_folder import RunFolder
    from ttf.training.plan import Plan
    from ttf.training.plan.scale import Shape


def exchange_summary(
    folder: RunFolder, plan: Plan, config: RunConfig, shape: Shape
) -> ExchangeSummary:
    """For summary.json, as `exchange`; empty for a run of one process. Reads metrics.jsonl."""
    if shape.world == 1:
        return {}
    found = measured(RunRecord(folder.path).metrics())
    if not found:
        return {}
    planned = scale_plan(plan, config, shape)
    found["planned_seconds"] = planned.exchange_s
    found["planned_share"] = planned.exchange_share
    return found
