"""Everything that is particular to the device. YOUR DEVICE: each method says what it does there.

This module is imported before torch is: `environment` sets variables that torch reads only once.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Literal

from ttf import BatchPlan, ConfigError, Precision, Settled, thread_environment, usable_threads

if TYPE_CHECKING:
    import torch

    from .plugin import Options

_HOST = "cpu"
"""The name of the host's random generator in `rng_state`."""


class YourNamePolicy:
    """A device whose memory is the host's: nothing is moved, waited for or cleared."""

    name = "your-name"
    reason = ""
    """Why this one; empty where it was asked for by name."""
    constant_shapes = False
    """True where tensors must keep their shapes from step to step, as with compiled graphs."""
    rows_at_once = 0
    """Samples it computes fastest at a time: shorter micro-batches of a step are put together."""
    probe_at_start = True
    """Loss and gradients of a first batch are compared with the CPU's before a run trusts it."""

    def __init__(self, options: Options, threads: int | None) -> None:
        self.options = options
        self.threads = usable_threads() if threads is None else threads

    def environment(self) -> Mapping[str, str]:
        """A real device: and what its libraries must find when they are loaded."""
        return thread_environment(self.threads)

    def start(self) -> None:
        """A real device: is it chosen, and does it answer? PluginUnavailable where it does not."""
        import torch

        torch.set_num_threads(self.threads)
        # As torch.use_deterministic_algorithms, which also imports torch's compiler.
        torch.set_deterministic_debug_mode("error" if self.options.deterministic else "default")

    def settled(self) -> Mapping[str, Settled]:
        """A real device: what its options that may be "auto" come to on this machine."""
        return {}

    def torch_device(self) -> torch.device:
        """A real device: torch.device("xpu", 0), for example."""
        import torch

        return torch.device("cpu")

    def plan(self, batch_size: int, accumulate: int) -> BatchPlan:
        """A real device: what fits its memory. A step keeps its samples, or the notes say why not."""
        limit = self.options.max_rows
        if not limit or batch_size <= limit:
            return BatchPlan(micro_batch=batch_size, accumulate=accumulate)
        parts = next(
            n for n in range(-(-batch_size // limit), batch_size + 1) if not batch_size % n
        )
        return BatchPlan(
            micro_batch=batch_size // parts,
            accumulate=accumulate * parts,
            notes=(
                (
                    f"Batches of {batch_size} samples are computed in {parts} parts, because "
                    f"max_rows is {limit}."
                ),
            ),
        )

    def precision(self, requested: Literal["fp32", "bf16", "auto"]) -> Precision:
        """A real device: "auto" is what is fast on it and accurate enough."""
        if requested == "bf16":
            if self.options.bf16:
                return Precision(name="bf16", reason="set by the user; autocast")
            raise ConfigError(
                "bfloat16 is disabled for the device your-name (its option bf16).",
                hint="Use --precision fp32.",
            )
        return Precision(name="fp32", reason="set by the user" if requested == "fp32" else "exact")

    def autocast(self, precision: Precision) -> AbstractContextManager[Any]:
        """A real device: torch.autocast with its own type; nothing for fp32."""
        import torch

        if precision.name == "fp32":
            return nullcontext()
        return torch.autocast("cpu", dtype=torch.bfloat16)

    def to_device(self, tensor: torch.Tensor) -> torch.Tensor:
        """A real device: tensor.to(self.torch_device()), from pinned memory where that is faster."""
        return tensor

    def synchronize(self) -> None:
        """A real device: waits, so that a fault is met in the step that caused it."""

    def memory(self) -> Mapping[str, int]:
        """A real device: bytes by name, {"allocated": ..., "reserved": ..., "total": ...}."""
        return {}

    def empty_cache(self) -> None:
        """A real device: gives memory back that torch keeps for later."""

    def rng_state(self) -> dict[str, torch.Tensor]:
        """A real device: its generators as well, each under a name of its own."""
        import torch

        return {_HOST: torch.get_rng_state()}

    def set_rng_state(self, state: Mapping[str, torch.Tensor]) -> None:
        """A real device: its generators as well; ConfigError where one is missing."""
        import torch

        if _HOST not in state:
            raise ConfigError(
                "The random state was saved on another device: it contains "
                f"{', '.join(sorted(state)) or 'nothing'}, but {_HOST!r} is needed.",
                hint="Resume the run on the device on which it was started.",
            )
        torch.set_rng_state(state[_HOST])
