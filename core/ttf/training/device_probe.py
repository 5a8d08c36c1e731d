"""The parity probe: does the device compute what the CPU computes?

Computes loss and gradients of one fixed micro-batch, the first of the run's order, with the
training code: once on the device, once on the CPU in fp32, each on a copy of the same weights.
Dropout is off on both sides: no two kinds of device draw the same random numbers from the same
seed.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ttf.config.safety_schema import ProbeConfig
from ttf.contracts import DevicePolicy, Precision
from ttf.data.dataset import Dataset
from ttf.data.loader import MicroBatch, StepHead, head_of
from ttf.data.order import Order, key, uniform
from ttf.errors import DeviceMistrusted, NumericFailure
from ttf.host import plugins
from ttf.machine.gemm import is_float32, set_to
from ttf.rundir.documents import ProbeLine
from ttf.training.gradient_difference import (
    REFERENCE,
    ProbeReport,
    differences,
    explain,
    loss_error,
)
from ttf.training.memory_bank import MemoryBank
from ttf.training.step import Stepper
from ttf.training.towers import TwoTower

# Relative, by torch's float32 matmul precision; bf16 uses the last. Measured noise is 500 and 4
# times smaller: docs/devices.md.
TOLERANCES: Final[Mapping[str, float]] = {"highest": 1e-3, "high": 1e-2, "medium": 5e-2}


@dataclass(frozen=True, kw_only=True)
class _Side:
    loss: float
    gradients: dict[str, Tensor]


class Probe:
    """Compares at the start if the device asks for it, and every `probe.every` steps."""

    def __init__(
        self,
        *,
        config: ProbeConfig,
        stepper: Stepper,
        data: Dataset,
        order: Order,
        mined: int,
        record: Callable[[ProbeLine], None],
    ) -> None:
        """`mined`: negatives per query in training. `record` takes a line of metrics.jsonl for each
        probe, also for one that ends the run."""
        self._config = config
        self._data = data
        self._order = order
        self._mined = mined
        self._gradients = stepper.gradients
        self._record = record
        self._policy = stepper.gradients.policy
        self._last: int | None = None

    @cached_property
    def _cpu(self) -> DevicePolicy:
        factory = plugins.usable("device", REFERENCE)
        return factory.create(factory.options_type(), self._policy.threads)

    def due(self, step: int) -> bool:
        """True if this step is to be probed and has not been, in this process."""
        every = self._config.every
        if self._last is None:
            return every > 0 or self._policy.probe_at_start
        return every > 0 and step != self._last and step % every == 0

    def __call__(self, step: int) -> ProbeReport:
        """Call between steps. Raises NumericFailure, or DeviceMistrusted if the run may go on
        without the device; leaves generators, weights and gradients unchanged."""
        self._last = step
        began = time.perf_counter()
        report = self._compare(step, *self._compute_both(), began)
        self._record(report.to_json())
        if not report.ok:
            self._refuse(report)
        return report

    def _compute_both(self) -> tuple[_Side, _Side]:
        generators = self._policy.rng_state()
        try:
            head, micro = self._sample()
            model = _comparable(self._gradients.model, self._order.seed)
            device = self._compute(model, head, micro, self._policy, self._gradients.precision)
            with set_to("highest"):
                exact = self._cpu.precision("fp32")
                reference = self._compute(model, head, micro, self._cpu, exact)
        finally:
            self._policy.set_rng_state(generators)
            self._policy.empty_cache()
        return device, reference

    # --- one side -------------------------------------------------------------------------

    def _sample(self) -> tuple[StepHead, MicroBatch]:
        """The first micro-batch of the run, with as many candidates as a training step."""
        self._data.check_unchanged()
        size, order, documents = self._gradients.micro_batch, self._order, self._gradients.documents
        if not documents.fixed:  # a trainable tower encodes a micro-batch's share at a time
            order = replace(order, samples_per_step=size)
        draw = self._fixed_documents if self._mined else None
        head = head_of(0, self._data.train, order, documents.read, draw)
        head = replace(
            head, rows=head.rows[:size], known=head.known[:size], targets=head.targets[:size]
        )
        queries = self._data.train.batch(head.rows)
        return head, MicroBatch(start=0, stop=len(head.rows), queries=queries)

    def _fixed_documents(
        self, step: int, rows: NDArray[np.int64], known: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        # Fixed documents instead of mined ones: mined documents differ from step to step.
        places = np.arange(len(rows) * self._mined, dtype=np.int64)
        drawn = uniform(places, key(self._order.seed, "probe")) * self._gradients.documents.rows
        return drawn.astype(np.int64).reshape(len(rows), self._mined)

    def _compute(
        self,
        model: TwoTower,
        head: StepHead,
        micro: MicroBatch,
        policy: DevicePolicy,
        precision: Precision,
    ) -> _Side:
        own = copy.deepcopy(model).to(policy.torch_device())
        gradients = replace(
            self._gradients,
            model=own,
            bank=self._empty_bank(policy),
            documents=self._gradients.documents.seen_by(own, policy),
            policy=policy,
            precision=precision,
        )
        losses_B = gradients(head, [micro]).losses_S
        policy.synchronize()
        found = {
            name: parameter.grad.detach().cpu()
            for name, parameter in own.named_parameters()
            if parameter.grad is not None
        }
        return _Side(loss=float(losses_B.mean()), gradients=found)

    def _empty_bank(self, policy: DevicePolicy) -> MemoryBank:
        return MemoryBank(
            capacity=0,
            num_documents=self._gradients.documents.rows,
            dim=self._gradients.documents.dim,
            room=self._order.samples_per_step * (1 + self._mined),
            device=policy.torch_device(),
            constant_shape=policy.constant_shapes,
        )

    # --- both sides -----------------------------------------------------------------------

    def _compare(self, step: int, device: _Side, cpu: _Side, began: float) -> ProbeReport:
        tolerance = self._tolerance()
        found = differences(device.gradients, cpu.gradients, tolerance)
        return ProbeReport(
            step=step,
            device=self._policy.name,
            precision=self._gradients.precision.name,
            tolerance=tolerance,
            loss=device.loss,
            loss_cpu=cpu.loss,
            loss_error=loss_error(device.loss, cpu.loss),
            worst=max(found, key=lambda d: d.error),
            wrong=sum(d.error > tolerance for d in found),
            parameters=len(found),
            seconds=time.perf_counter() - began,
        )

    def _tolerance(self) -> float:
        if self._config.tolerance != "auto":
            return self._config.tolerance
        if self._gradients.precision.name == "bf16":
            return TOLERANCES["medium"]
        setting = torch.get_float32_matmul_precision()
        if self._policy.torch_device().type == "cpu" and is_float32(setting):
            setting = "highest"
        return TOLERANCES[setting]

    def _refuse(self, report: ProbeReport) -> None:
        text, hint = explain(report)
        elsewhere = self._policy.name != REFERENCE
        if elsewhere and self._config.on_mismatch == "cpu":
            remedy = {"device.name": REFERENCE}
            raise DeviceMistrusted(text, remedy=remedy, hint=hint)
        raise NumericFailure(text, hint=hint)


def _comparable(model: TwoTower, seed: int) -> TwoTower:
    """A copy on the CPU, in training mode without dropout, no layer of it at zero."""
    own = copy.deepcopy(model).to("cpu").train()
    for module in own.modules():
        _without_dropout(module)
    with torch.no_grad():
        for name, parameter in own.named_parameters():
            # A residual tower starts with its last layer at zero: no gradient would get past it.
            if parameter.dim() > 1 and not parameter.any():
                drawn = torch.Generator().manual_seed(key(seed, "probe", name))
                parameter.normal_(0, 0.02, generator=drawn)
    return own


def _without_dropout(module: nn.Module) -> None:
    # torch's own layers stay in training mode, because some have another code path there; other
    # modules are set to eval mode, and so drop nothing themselves.
    if isinstance(getattr(module, "dropout", None), float):
        cast("Any", module).dropout = 0.0
    home = type(module).__module__
    if home == "torch.nn.modules.dropout" or not home.startswith("torch.nn."):
        module.training = False
