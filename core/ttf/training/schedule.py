"""What is due at which step of a run: pure functions of its configuration and its order."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ttf.config.schema import Gate, MinerConfig, RunConfig
from ttf.contracts import EvalRecord
from ttf.data.order import Order
from ttf.errors import ConfigError, GateNotMet
from ttf.rundir.documents import GateResult

# Of the temperature, at the first and the last step: docs/results.md.
_FALLING = (1.4, 0.8)
_OPERATORS = {">=": operator.ge, ">": operator.gt, "<=": operator.le, "<": operator.lt}


def learning_rate(step: int, total: int, peak: float, schedule: str, warmup: float) -> float:
    warm = math.ceil(warmup * total)
    if step < warm:
        return peak * (step + 1) / warm
    done = (step - warm) / max(1, total - warm)
    if schedule == "cosine":
        return peak * 0.5 * (1 + math.cos(math.pi * done))
    return peak * (1 - done) if schedule == "linear" else peak


def temperature(step: int, total: int, given: float, schedule: str) -> float:
    """Soft first, then sharp: the early steps learn from all documents, the late ones from the
    nearest. `given`: loss.temperature."""
    if schedule == "constant" or total < 2:
        return given
    first, last = _FALLING
    return float(given * first * (last / first) ** (step / (total - 1)))


def evaluation_due(step: int, total: int, config: RunConfig, order: Order) -> bool:
    """True before the first step, after the last, at configured steps, and at every gate."""
    every = config.evaluate.every
    if step in (0, total) or any(step == gate_step(gate.at, order) for gate in config.gates):
        return True
    if every == "end":
        return False
    assert every != "auto", "settled before the first step"
    return step % (order.steps_per_epoch if every == "epoch" else every) == 0


def num_evaluations(total: int, every: str | int, order: Order) -> int:
    """How often a run of `total` steps is evaluated after its first step; gates not counted."""
    if every == "end":
        return 1
    return -(-total // (every if isinstance(every, int) else order.steps_per_epoch))


def gate_step(at: str, order: Order) -> int:
    """The step of a gate: `at` is "step 300" or "epoch 2"."""
    unit, number = at.split()
    return int(number) * (order.steps_per_epoch if unit == "epoch" else 1)


def refuse_late_gates(gates: Sequence[Gate], total: int, order: Order) -> None:
    """Raises ConfigError for gates after the last step, which would pass silently."""
    late = [
        f"gates: at = {gate.at!r}, but the run ends at step {total}"
        for gate in gates
        if gate_step(gate.at, order) > total
    ]
    if late:
        raise ConfigError(
            f"This run has {total} steps ({total / order.steps_per_epoch:.1f} epochs) and ends "
            "before these gates:",
            problems=late,
            hint="Move the gates to an earlier step, or train longer (--epochs, --steps).",
        )


def gate_results(
    gates: Sequence[Gate], order: Order, record: EvalRecord | None = None
) -> list[GateResult]:
    """Every gate; those that are due at `record` are judged."""
    return [_result(gate, gate_step(gate.at, order), record) for gate in gates]


def _result(gate: Gate, step: int, record: EvalRecord | None) -> GateResult:
    match = re.fullmatch(r"(\S+?) *(>=|>|<=|<) *(\S+)", gate.need)
    assert match is not None
    metric, comparison, bound = match[1], match[2], float(match[3])
    value = record.metrics[metric] if record is not None and record.step == step else None
    return {
        "at": gate.at,
        "step": step,
        "need": gate.need,
        "metric": metric,
        "bound": bound,
        "value": value,
        "passed": None if value is None else _OPERATORS[comparison](value, bound),
    }


def refuse_missed(results: Iterable[GateResult]) -> None:
    """Raises GateNotMet for the first gate that was judged and not reached."""
    for gate in results:
        if gate["passed"] is False:
            raise GateNotMet(
                f"The gate at {gate['at']} requires {gate['need']}, but {gate['metric']} is "
                f"{gate['value']:.4f}.",
                hint=(
                    "ttf stopped the run early and kept its last checkpoint. To continue "
                    "anyway: ttf resume"
                ),
            )


@dataclass(frozen=True, kw_only=True)
class Window:
    """Steps start..stop share a candidate table, or have none."""

    start: int
    stop: int
    mined: bool


def window_of(step: int, total: int, order: Order, miner: MinerConfig) -> Window:
    """The window of a step; the refresh steps separate windows."""
    first = order.steps_per_epoch if miner.start == "epoch" else miner.start
    if not miner.negatives:
        return Window(start=0, stop=total, mined=False)
    if step < first:
        return Window(start=0, stop=min(first, total), mined=False)
    every = _refresh_every(miner, order)
    # Epoch refreshes lie at epoch boundaries, wherever the first mined step is.
    origin = first if isinstance(miner.refresh, int) else 0
    index = (step - origin) // every
    start = max(first, origin + index * every)
    return Window(start=start, stop=min(origin + (index + 1) * every, total), mined=True)


def mined_steps(total: int, order: Order, miner: MinerConfig) -> int:
    """The steps that share the first candidate table; 0 if nothing is mined."""
    first = window_of(0, total, order, miner)
    if not first.mined:
        first = window_of(first.stop, total, order, miner)
    return first.stop - first.start if first.mined else 0


def num_refreshes(miner: MinerConfig, order: Order, total: int) -> int:
    return max(1, -(-total // _refresh_every(miner, order)))


def _refresh_every(miner: MinerConfig, order: Order) -> int:
    # With "auto" each epoch is a window of its own, until the run decides that some share a table.
    return miner.refresh if isinstance(miner.refresh, int) else order.steps_per_epoch
