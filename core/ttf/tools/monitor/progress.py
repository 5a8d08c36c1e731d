"""The progress of a run from metrics.jsonl and memory.jsonl."""

from __future__ import annotations

from collections import deque
from typing import Final

from ttf.rundir.documents import EvalLine, MetricsLine, StepLine
from ttf.rundir.json_lines import Tail, last_with, parsed
from ttf.rundir.memory_facts import GovernorLine
from ttf.rundir.run_folder import RunFolder
from ttf.rundir.run_record import memory_of, metrics_of
from ttf.text.numbers import size
from ttf.tools.monitor.nearest_limit import forget_before
from ttf.tools.monitor.trend import WINDOW_S, Point
from ttf.tools.monitor.view import Evaluated, Governed

SMOOTHED: Final = 20  # steps in the means of speed and loss
_LEAST_S: Final = 10.0  # shortest time for an estimate of the time left
_METRICS_BYTES: Final = 256 << 10
_MEMORY_BYTES: Final = 128 << 10
_MOST_LOSSES: Final = 2048
_DECIDED: Final = ("shrink", "grow", "short")  # other lines tell what came of it
_EVAL: Final = b'"type": "eval"'


class Progress:
    """Follows both logs; leaves out the unfinished steps of a process that died."""

    def __init__(self, run: RunFolder) -> None:
        self.losses: deque[float] = deque(maxlen=_MOST_LOSSES)
        # (unix time, anonymous and shared bytes) of the last minutes
        self.memory: deque[Point] = deque()
        self.evaluated: Evaluated | None = None
        self.governed: Governed | None = None
        self._run = run
        self._metrics = Tail(run.metrics, run.path, _METRICS_BYTES)
        self._memory = Tail(run.memory, run.path, _MEMORY_BYTES)
        self._steps: deque[StepLine] = deque(maxlen=SMOOTHED)
        self._paces: deque[Point] = deque()
        self._looked_back = False

    def look(self, now: float) -> None:
        self._read_metrics()
        self._read_memory(now)

    @property
    def last(self) -> StepLine:
        """The line of the last step; empty before the first step."""
        return self._steps[-1] if self._steps else StepLine()

    def _read_metrics(self) -> None:
        lines = self._metrics.lines()
        if self._metrics.anew:  # steps that a death undid are not in it any more
            self._steps.clear()
            self.losses.clear()
            self._looked_back = False
        for line in metrics_of(parsed(lines)):
            self._take(line)
        if not self._looked_back:  # the last evaluation may stand far before what a tail reads
            self._looked_back = True
            self.evaluated = None
            last = last_with(self._run.metrics, self._run.path, _EVAL)
            for line in metrics_of(parsed([last])):
                self._take(line)

    def _take(self, line: MetricsLine) -> None:
        if line["type"] == "step":
            self._steps.append(line)
            if "loss" in line:
                self.losses.append(line["loss"])
        elif line["type"] == "eval":
            self.evaluated = _evaluated(line)
        elif line["type"] == "memory" and line.get("what") in _DECIDED:
            self.governed = _governed(line)

    def _read_memory(self, now: float) -> None:
        lines = self._memory.lines()
        if self._memory.anew:
            self.memory.clear()
            self._paces.clear()
        for line in memory_of(parsed(lines)):
            if not {"time", "step", "anon", "shared"} <= line.keys():
                continue
            at, step = line["time"], line["step"]
            if self._paces and step < self._paces[-1][1]:  # a restart: it runs them again
                self._paces.clear()
            self.memory.append((at, line["anon"] + line["shared"]))
            self._paces.append((at, step))
        forget_before(self.memory, now - WINDOW_S)
        forget_before(self._paces, now - WINDOW_S)

    def samples_per_s(self) -> float | None:
        """Without mining, evaluations and checkpoints."""
        seconds = [line.get("seconds", 0.0) for line in self._steps]
        rates = [line.get("samples_per_s", 0.0) for line in self._steps]
        total = sum(seconds)
        if total <= 0:
            return None
        return sum(s * r for s, r in zip(seconds, rates, strict=True)) / total

    def loss_smoothed(self) -> float | None:
        losses = [line["loss"] for line in self._steps if "loss" in line]
        return sum(losses) / len(losses) if losses else None

    def seconds_left(self, step: int, total: int | None) -> float | None:
        if total is None or step >= total or len(self._paces) < 2:
            return None
        (begin, first), (end, last) = self._paces[0], self._paces[-1]
        if last <= first or end - begin < _LEAST_S:
            return None
        return (total - step) * (end - begin) / (last - first)


def _evaluated(line: EvalLine) -> Evaluated:
    return Evaluated(
        step=line.get("step", 0),
        metrics=line.get("metrics", {}),
        gates=tuple(line.get("gates", ())),
    )


def _governed(line: GovernorLine) -> Governed:
    return Governed(
        what=line.get("what", ""),
        why=line.get("why", ""),
        caches=tuple(
            f"{c.get('name', '')} {size(c.get('before', 0))} -> {size(c.get('after', 0))}"
            for c in line.get("levers", ())
        ),
        time=line.get("time", 0.0),
    )
