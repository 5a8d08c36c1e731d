"""All states a crash may leave of a run's folder: `python -m chaos.states SEED MOST NEW|RESUMED`.

The enumerator and the recovery are those of tests/system/rundir; a process of its own, because the
recovery needs torch. Prints {"states": N, "problems": [...]}.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Final

import torch
from tests.kit.small_run import begin, write_run
from tests.system.rundir.test_crash_states import Recording, check

STOP: Final = 4


def main(seed: int, at_most: int, kind: str) -> None:
    torch.set_num_threads(1)
    shared = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=shared if shared.is_dir() else None) as folder:
        ram = Path(folder)
        recording, before = _recorded(ram / "run", resumed=kind == "RESUMED")
        states = recording.states(at_most, seed)
        told = (
            (state.label, check(state, ram / "crashed", promised, STOP))
            for state in states
            for promised in [recording.promised(state.done, before)]
        )
        problems = [f"{label}: {problem}" for label, problem in told if problem]
    print(json.dumps({"states": len(states), "problems": problems}))


def _recorded(root: Path, *, resumed: bool) -> tuple[Recording, int]:
    """What a run did, and the step that was durable before."""
    begin(root)
    if not resumed:
        recording = Recording(root)
        recording.run(0, STOP)
        return recording, -1
    write_run(root, tell=lambda **_: None, stop=2)
    for damaged in (3, 7):  # one is written again under its name, one is newer than all
        path = root / "checkpoints" / f"step-{damaged:09d}"
        shutil.copytree(root / "checkpoints" / "step-000000002", path)
        (path / "optimizer.safetensors").write_bytes(b"torn")
    recording = Recording(root)
    recording.run(2, STOP)
    return recording, 2


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
