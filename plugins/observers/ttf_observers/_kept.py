"""Which of a run's events an earlier process wrote for good, and which are made again."""

from __future__ import annotations

from pathlib import Path


def kept_until(run_dir: Path, resumed_from: int) -> int | None:
    """The last step whose events stay; None where the run starts from its beginning, which it also
    does after a process that died before the first checkpoint. A run that was stopped before its
    first step goes on from step 0, and does not evaluate again."""
    return resumed_from if any((run_dir / "checkpoints").glob("step-*")) else None
