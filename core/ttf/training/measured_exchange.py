"""After a run on several processes: its exchange as measured, beside the plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ttf.rundir.exchange_facts import measured
from ttf.rundir.run_record import RunRecord
from ttf.training.plan.scale import Shape
from ttf.training.plan.scaled import scale_plan

if TYPE_CHECKING:
    from ttf.rundir.documents import Summary
    from ttf.training.session import Session


def exchange_facts(session: Session) -> Summary:
    """The key `exchange` of a summary; nothing for a run of one process. Reads metrics.jsonl."""
    world = session.world
    if world.size == 1:
        return {}
    found = measured(RunRecord(session.folder.path).metrics())
    if not found:
        return {}
    ranks = world.place.local_size
    shape = Shape(nodes=-(-world.size // ranks), ranks=ranks, shards=world.shards)
    planned = scale_plan(session.plan, session.decided.config, shape)
    found["planned_seconds"] = planned.exchange_s
    found["planned_share"] = planned.exchange_share
    return {"exchange": found}
