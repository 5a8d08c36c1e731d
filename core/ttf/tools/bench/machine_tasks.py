"""Tasks of `ttf bench` about the machine: done in a child process, and saved."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ttf.contracts import Progress
    from ttf.process.serve import Tell


def measure_ceilings(request: Mapping[str, Any], tell: Tell) -> dict[str, Any]:
    from ttf.machine.measured import kept_ceilings, save_ceilings
    from ttf.tools.bench import ceilings

    found, earlier = ceilings.measure(_started(tell)), kept_ceilings()
    if earlier is not None and not earlier.stale and (found.disturbed or earlier.disturbed):
        found = found.with_best_of(earlier)
    save_ceilings(found)
    return {"ceilings": found.to_json()}


def tune_machine(request: Mapping[str, Any], tell: Tell) -> dict[str, Any]:
    from ttf.machine.measured import save_row
    from ttf.tools.bench import tune

    row = tune.tune(_started(tell))
    save_row(row)
    return {"tuned": row.to_json()}


def _started(tell: Tell) -> Progress:
    # With as many threads as a run has.
    from ttf.machine import devices

    policy = devices.choose("cpu")
    devices.prepare(policy)
    policy.start()
    return lambda done, total: tell({"done": done, "total": total})
