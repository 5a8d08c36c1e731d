"""Compares two sets of gradients: how much they differ, where most, and whether that is too
much."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

import torch
from torch import Tensor

from ttf.rundir.documents import ProbeLine

REFERENCE: Final = "cpu"  # The reference for other devices.


@dataclass(frozen=True, kw_only=True)
class Difference:
    name: str
    # Norm of the difference over the CPU's norm, or over `tolerance` of the norm of all gradients
    # if that is larger; infinite if only one side is not finite.
    error: float
    cosine: float
    norm: float
    norm_cpu: float


@dataclass(frozen=True, kw_only=True)
class ProbeReport:
    """`worst` is the gradient that differs most."""

    step: int
    device: str
    precision: str
    tolerance: float
    loss: float
    loss_cpu: float
    loss_error: float
    worst: Difference
    wrong: int  # How many gradients differ by more than the tolerance.
    parameters: int
    seconds: float

    @property
    def ok(self) -> bool:
        return self.loss_error <= self.tolerance and not self.wrong

    def to_json(self) -> ProbeLine:
        found: dict[str, Any] = vars(self)
        line = {name: value for name, value in found.items() if name != "worst"} | {
            "type": "probe",
            "ok": self.ok,
            "grad_error": self.worst.error,
            "cosine": self.worst.cosine,
            "parameter": self.worst.name,
            "grad_norm": self.worst.norm,
            "grad_norm_cpu": self.worst.norm_cpu,
        }
        return cast("ProbeLine", line)

    @property
    def text(self) -> str:
        return (
            f"The device {self.device} and the CPU computed the same numbers at step {self.step}, "
            f"within the tolerance of {self.tolerance:g}: the loss differs by "
            f"{self.loss_error:.1e}, the gradients by at most {self.worst.error:.1e} "
            f"({self.worst.name})."
        )


def differences(
    device: Mapping[str, Tensor], cpu: Mapping[str, Tensor], tolerance: float
) -> list[Difference]:
    """One per parameter that has a gradient on either side; a missing gradient counts as zero.

    A gradient smaller than `tolerance` of the norm of all is compared to that norm: a gradient that
    cancels to almost nothing (a bias before a normalisation) is rounding only, and differs
    everywhere.
    """
    whole = math.sqrt(sum(_norm(g) ** 2 for g in cpu.values() if bool(torch.isfinite(g).all())))
    found = []
    for name in sorted({*device, *cpu}):
        there = device.get(name)
        here = cpu.get(name)
        either = cast("Tensor", there if here is None else here)
        found.append(
            _difference(
                name,
                torch.zeros_like(either) if there is None else there,
                torch.zeros_like(either) if here is None else here,
                tolerance * whole,
            )
        )
    return found


def _difference(name: str, there: Tensor, here: Tensor, smallest: float) -> Difference:
    norm, norm_cpu = _norm(there), _norm(here)
    finite = bool(torch.isfinite(there).all()), bool(torch.isfinite(here).all())
    if not all(finite):
        # Not finite on both sides: not the device's fault; the step itself raises for it.
        error = 0.0 if not any(finite) else math.inf
        return Difference(name=name, error=error, cosine=math.nan, norm=norm, norm_cpu=norm_cpu)
    apart, scale = _norm(there.double() - here.double()), max(norm_cpu, smallest)
    product = norm * norm_cpu
    dot = float((there.double() * here.double()).sum())
    return Difference(
        name=name,
        error=apart / scale if scale else (math.inf if apart else 0.0),
        cosine=dot / product if product else float(norm == norm_cpu),
        norm=norm,
        norm_cpu=norm_cpu,
    )


def _norm(gradient: Tensor) -> float:
    return float(gradient.double().norm())


def loss_error(there: float, here: float) -> float:
    # Relative, to 1 nat at least: a loss near zero (memorized data) is rounding only.
    finite = math.isfinite(there), math.isfinite(here)
    if not all(finite):
        return 0.0 if not any(finite) else math.inf
    return abs(there - here) / max(1.0, abs(here))


def explain(report: ProbeReport) -> tuple[str, str]:
    """Returns what is wrong and what to do, for an error."""
    worst = report.worst
    what = (
        f"the gradient of {worst.name} has the norm {worst.norm:.6g} on the device and "
        f"{worst.norm_cpu:.6g} on the CPU"
    )
    if math.isfinite(worst.error):
        what += f", a difference of {worst.error:.2%} (cosine {worst.cosine:.6f})"
    if report.loss_error > report.tolerance:
        what = (
            f"the loss is {report.loss:.6g} on the device and {report.loss_cpu:.6g} on the "
            f"CPU; {what}"
        )
    allowed = f"the tolerance in {report.precision} is {report.tolerance:.2%}"
    count = f"{report.wrong} of {report.parameters} gradients are wrong"
    if report.device == REFERENCE:
        who = "The CPU computed the same micro-batch twice, and the results differ"
        hint = (
            "In fp32, a CPU computes the same result each time. Test the memory of this machine, "
            "and look for libraries that change how the CPU computes. With --precision bf16, try "
            "fp32."
        )
    else:
        who = f"The device {report.device} and the CPU compute different numbers"
        hint = (
            "Train on the CPU: --device cpu. To continue on the CPU automatically: --set "
            "probe.on_mismatch=cpu. If you know that the difference is harmless: --set "
            "probe.tolerance=X."
        )
    return f"{who} (probe at step {report.step}): {what}; {allowed}, {count}.", hint
