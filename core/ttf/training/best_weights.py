"""The best evaluation so far, its weights, and early stopping."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn

from ttf.config.evaluation_schema import EvaluateConfig
from ttf.contracts import EvalRecord

# Fields that a checkpoint keeps, besides the weights.
KEPT = ("initial", "last", "best", "best_step", "last_step", "without_gain")


@dataclass(kw_only=True)
class Selection:
    """Sees every evaluation once, in order."""

    config: EvaluateConfig
    initial: dict[str, float] = field(default_factory=dict)
    last: dict[str, float] = field(default_factory=dict)
    best: dict[str, float] = field(default_factory=dict)
    best_step: int = 0
    last_step: int = -1  # Of the last evaluation; -1 before the first.
    without_gain: int = 0
    weights: dict[str, Tensor] = field(default_factory=dict)

    def see(self, record: EvalRecord, model: nn.Module) -> None:
        self.last = dict(record.metrics)
        self.last_step = record.step
        if record.step == 0:
            self.initial = dict(record.metrics)
        now, best = record.metrics[self.config.metric], self.best.get(self.config.metric)
        gained = best is None or now > best
        self.without_gain = 0 if gained else self.without_gain + 1
        # With equal metrics, trained weights win over untrained ones.
        if gained or (now == best and self.best_step == 0):
            self.best = dict(record.metrics)
            self.best_step = record.step
            if self.config.keep_best:
                self.weights = {k: v.detach().clone() for k, v in model.state_dict().items()}

    @property
    def patience_used_up(self) -> bool:
        patience = self.config.patience
        return patience != "auto" and 0 < patience <= self.without_gain

    @property
    def final(self) -> dict[str, float]:
        """Metrics of the weights that the run ends with."""
        return self.best if self.config.keep_best else self.last

    @property
    def final_step(self) -> int:
        return self.best_step if self.config.keep_best else self.last_step

    def to_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in KEPT}

    def restore(self, state: Mapping[str, Any], weights: Mapping[str, Tensor]) -> None:
        for name, value in state.items():
            setattr(self, name, value)
        self.weights = dict(weights)
