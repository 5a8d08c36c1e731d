"""The process that one bench runs in: `python -m ttf.tools.bench.child LIFELINE RESULTS DISPLAY PARENT`."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from typing import Any, cast

from ttf.supervise.throwaway_main import main
from ttf.tools.bench.catalogue import BENCHES, CEILINGS, TUNE, Tell, Work


def work_of(name: str) -> Work:
    """The function of a bench."""
    bench = {**BENCHES, CEILINGS.name: CEILINGS, TUNE.name: TUNE}[name]
    module, _, function = bench.work.partition(":")
    return cast("Work", getattr(importlib.import_module(module), function))


def measure_ceilings(request: Mapping[str, Any], tell: Tell) -> dict[str, Any]:
    """Measured and kept for this machine."""
    from ttf.machine import ceilings

    def progress(done: int, total: int) -> None:
        tell({"done": done, "total": total})

    _start()
    found = ceilings.measure(progress)
    ceilings.save(found)
    return {"ceilings": found.to_json()}


def tune_machine(request: Mapping[str, Any], tell: Tell) -> dict[str, Any]:
    """Measured and kept for the runs on this machine."""
    from ttf.machine.tuned_products import save_row
    from ttf.tools.bench import tune

    def progress(done: int, total: int) -> None:
        tell({"done": done, "total": total})

    _start()
    row = tune.tune(progress)
    save_row(row)
    return {"tuned": row.to_json()}


def _start() -> None:
    """With as many threads as a run has."""
    from ttf.machine import devices

    policy = devices.choose("cpu")
    devices.prepare(policy)
    policy.start()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[4]), work_of)
