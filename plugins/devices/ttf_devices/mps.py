"""The device `mps` (Apple GPUs): shallow accumulation, fp32, one shape; never chosen by itself.

Nothing here was run on Apple hardware; see docs/devices.md.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from ttf import (
    Availability,
    BatchPlan,
    ConfigError,
    PluginUnavailable,
    Precision,
    hookimpl,
    option,
    thread_environment,
)
from ttf_devices import _host

if TYPE_CHECKING:
    import torch

KNOWN_BAD = (
    "recurrent towers (gru, lstm) have known faults on mps: wrong numbers, or a memory leak "
    "(pytorch#94691, #145374, #177116)"
)


CAREFUL = 4  # micro-batches per step, unless the user allows more


@dataclass(frozen=True, kw_only=True)
class MpsOptions:
    max_accumulate: int = option(
        CAREFUL,
        "largest number of micro-batches per optimizer step; more are suspected of crashes, which "
        "was never proven: allow more to compare steps of equal size",
        unit="micro-batches",
        ge=1,
        le=65_536,
    )
    sync: Literal["step", "micro-batch", "none"] = option(
        "step",
        "when the run waits for the device: after each optimizer step, also after each micro-batch, "
        "or only where it reads a number from the device; changes no number",
    )
    empty_cache: Literal["never", "step", "micro-batch"] = option(
        "never",
        "when the memory that torch keeps cached on the device is freed: never during training, "
        "after each optimizer step, or also after each micro-batch; waits for the device, and "
        "changes no number",
    )
    cpu_fallback: bool = option(
        False, "run operators that mps does not have on the CPU; the data is copied each time"
    )
    deterministic: bool = option(
        True, "refuse operations with results that may differ between runs"
    )


class MpsPolicy(_host.Accelerator):
    """Caps accumulation, keeps shapes constant, waits and empties the cache where it is told to."""

    name = "mps"
    constant_shapes = True
    options: MpsOptions

    def environment(self) -> Mapping[str, str]:
        # An explicit 0: a missing operator ends the run with its name, instead of making every
        # step quietly ten times slower.
        fallback = "1" if self.options.cpu_fallback else "0"
        return {
            **thread_environment(self.threads),
            "PYTORCH_ENABLE_MPS_FALLBACK": fallback,
        }

    def start(self) -> None:
        if not self.backend.is_available():
            raise PluginUnavailable(
                "The device mps cannot be used, because torch finds no Metal device. Either torch "
                "was built without mps, or macOS is too old, or this is a virtual machine.",
                hint="Use --device cpu.",
            )
        _host.start_host(self.threads, self.options.deterministic)

    def plan(self, batch_size: int, accumulate: int) -> BatchPlan:
        cap = self.options.max_accumulate
        granted = min(accumulate, cap)
        same_shape = (
            f"All micro-batches have the same shape ({batch_size} samples), because gradients on "
            "mps were wrong after a change of the shape (pytorch#177116)."
        )
        notes = [
            KNOWN_BAD[:1].upper() + KNOWN_BAD[1:] + ": compare the results with --device cpu.",
            same_shape,
        ]
        if granted < accumulate:
            asked, gets = batch_size * accumulate, batch_size * granted
            larger = -(-asked // granted)
            notes.insert(
                0,
                f"mps allows at most {cap} micro-batches per step. The settings ask for "
                f"{batch_size} x {accumulate} = {asked} samples per step, but a step now has "
                f"{batch_size} x {granted} = {gets}. For {asked} samples, use --batch-size "
                f"{larger} --accum {granted}, or allow more micro-batches: --set "
                f"device.mps.max_accumulate={accumulate}.",
            )
        elif granted > CAREFUL:
            notes.insert(
                0,
                f"A step has {granted} micro-batches, because device.mps.max_accumulate is {cap}. "
                f"More than {CAREFUL} are suspected of crashes on mps, which was never proven.",
            )
        return BatchPlan(micro_batch=batch_size, accumulate=granted, notes=tuple(notes))

    def precision(self, requested: Literal["fp32", "bf16", "auto"]) -> Precision:
        if requested == "bf16":
            raise ConfigError(
                "device.precision must be fp32 on mps: bf16 was never tested there.",
                hint="Use --precision fp32, or bf16 with --device cpu.",
            )
        why = "set by the user" if requested == "fp32" else "the only precision on mps"
        return Precision(name="fp32", reason=why)

    def autocast(self, precision: Precision) -> AbstractContextManager[Any]:
        return nullcontext()

    def synchronize(self) -> None:
        self.backend.synchronize()

    def micro_batch_ended(self) -> None:
        self._pause(
            waits=self.options.sync == "micro-batch",
            empties=self.options.empty_cache == "micro-batch",
        )

    def step_ended(self) -> None:
        self._pause(waits=self.options.sync != "none", empties=self.options.empty_cache != "never")

    def _pause(self, *, waits: bool, empties: bool) -> None:
        # Waits first: what the device still uses could not be freed.
        if waits:
            self.synchronize()
        if empties:
            self.empty_cache()

    def memory(self) -> Mapping[str, int]:
        return {
            "allocated": int(self.backend.current_allocated_memory()),
            "driver": int(self.backend.driver_allocated_memory()),
            "recommended_max": int(self.backend.recommended_max_memory()),
        }

    def rng_state(self) -> dict[str, torch.Tensor]:
        return {**_host.host_rng_state(), "mps": self.backend.get_rng_state()}

    def set_rng_state(self, state: Mapping[str, torch.Tensor]) -> None:
        own = _host.rng_part(state, "mps", self.name)
        _host.set_host_rng_state(state, self.name)
        self.backend.set_rng_state(own)


class MpsFactory:
    name = "mps"
    options_type: type[Any] = MpsOptions
    preference = 10

    def availability(self) -> Availability:
        system, machine = platform.system(), platform.machine()
        if (system, machine) == ("Darwin", "arm64"):
            return Availability(ok=True, reason=KNOWN_BAD)
        return Availability(
            ok=False,
            reason=f"mps needs a Mac with Apple silicon, but this is {system} on {machine}",
            fix="Use --device cpu.",
        )

    def create(self, options: Any, threads: int | None) -> MpsPolicy:
        return MpsPolicy(options, threads)


@hookimpl
def ttf_device(name: str) -> MpsFactory | None:
    return MpsFactory() if name == MpsFactory.name else None
