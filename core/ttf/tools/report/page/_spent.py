"""Where the time of a run went, by phase: in all, and along its steps."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

PHASES: Final = {
    "data": "waiting for data",
    "compute": "computing",
    "mining": "mining",
    "eval": "evaluating",
    "checkpoint": "saving",
}
"""In the order of the bars; the checkpoint thread's own writing goes on beside the training."""
MOST_PARTS: Final = 32


class Spent:
    """Sums of seconds; parts of the run are of equally many steps each, as wide as it takes."""

    def __init__(self) -> None:
        self.width = 1
        self.total: dict[str, float] = dict.fromkeys(PHASES, 0.0)
        self.parts: list[dict[str, float]] = []

    @property
    def tracked(self) -> float:
        return sum(self.total.values())

    def add(self, kind: str, line: Mapping[str, Any]) -> None:
        """A line of metrics.jsonl; other kinds than those of `PHASES` and steps say nothing."""
        step = line.get("step")
        number = step if isinstance(step, int) and step >= 0 else 0
        if kind == "step":
            waited, seconds = _seconds(line, "data_s"), _seconds(line, "seconds")
            self._book("data", number, waited)
            self._book("compute", number, max(0.0, seconds - waited))
        elif kind in PHASES:
            self._book(kind, number, _seconds(line, "seconds"))

    def _book(self, phase: str, step: int, seconds: float) -> None:
        self.total[phase] += seconds
        place = max(0, step - 1)
        while place // self.width >= MOST_PARTS:
            self._widen()
        while len(self.parts) <= place // self.width:
            self.parts.append(dict.fromkeys(PHASES, 0.0))
        self.parts[place // self.width][phase] += seconds

    def _widen(self) -> None:
        """Two neighbours become one."""
        self.width *= 2
        pairs = [self.parts[i : i + 2] for i in range(0, len(self.parts), 2)]
        self.parts = [{p: sum(part[p] for part in pair) for p in PHASES} for pair in pairs]


def _seconds(line: Mapping[str, Any], name: str) -> float:
    value = line.get(name)
    fine = isinstance(value, int | float) and math.isfinite(value) and value > 0
    return float(value) if fine else 0.0  # type: ignore[arg-type]
