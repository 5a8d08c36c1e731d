"""The seconds of a run by phase: in all, and along its steps."""

from __future__ import annotations

from typing import Final

from ttf.rundir.documents import MetricsLine

# In the order of the bars. Writes of the checkpoint thread run in parallel and do not count.
PHASES: Final = {
    "data": "waiting for data",
    "compute": "computing",
    "mining": "mining",
    "eval": "evaluating",
    "checkpoint": "saving",
}
MOST_PARTS: Final = 32


class PhaseSeconds:
    """Sums of seconds. The run is divided into parts of `width` steps; `width` doubles as it grows."""

    def __init__(self) -> None:
        self.width = 1
        self.total: dict[str, float] = dict.fromkeys(PHASES, 0.0)
        self.parts: list[dict[str, float]] = []

    @property
    def tracked(self) -> float:
        return sum(self.total.values())

    def add(self, line: MetricsLine) -> None:
        # Other types of lines are ignored.
        step = max(0, line.get("step", 0))
        if line["type"] == "memory":
            return
        seconds = max(0.0, line.get("seconds", 0.0))
        if line["type"] == "step":
            waited = max(0.0, line.get("data_s", 0.0))
            self._book("data", step, waited)
            self._book("compute", step, max(0.0, seconds - waited))
        elif line["type"] in PHASES:
            self._book(line["type"], step, seconds)

    def _book(self, phase: str, step: int, seconds: float) -> None:
        self.total[phase] += seconds
        place = max(0, step - 1)
        while place // self.width >= MOST_PARTS:
            self._widen()
        while len(self.parts) <= place // self.width:
            self.parts.append(dict.fromkeys(PHASES, 0.0))
        self.parts[place // self.width][phase] += seconds

    def _widen(self) -> None:
        # Joins each two neighbours.
        self.width *= 2
        pairs = [self.parts[i : i + 2] for i in range(0, len(self.parts), 2)]
        self.parts = [{p: sum(part[p] for part in pair) for p in PHASES} for pair in pairs]
