"""Which events of an earlier process of the run stay, and which are written again."""

from __future__ import annotations

from pathlib import Path


def kept_until(run_dir: Path, resumed_from: int) -> int | None:
    """Returns the last step whose events stay, or None if the run starts from its beginning.

    Without any checkpoint the run starts from its beginning, also after a process that died. With a
    checkpoint of step 0 it continues from step 0 and does not evaluate again.
    """
    return resumed_from if any((run_dir / "checkpoints").glob("step-*")) else None
