"""The device `cpu`: synchronous, deterministic, its threads fixed before torch loads."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from ttf import (
    Availability,
    BatchPlan,
    Precision,
    Processor,
    Settled,
    hookimpl,
    option,
    processor,
    thread_environment,
)
from ttf_devices import _gemm, _host

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, kw_only=True)
class CpuOptions:
    deterministic: bool = option(
        True, "refuse operations with results that may differ between runs"
    )
    float32_matmul: Literal["auto", "highest", "high", "medium"] = option(
        "auto",
        "float32 matmul precision of torch; auto: the fastest path of this processor that is as "
        "accurate as float32, from a table or from a measurement of ttf bench --tune",
    )


class CpuPolicy:
    """Host memory is device memory: nothing to move, to wait for or to clear."""

    name = "cpu"
    constant_shapes = False
    rows_at_once = 512
    probe_at_start = False

    def __init__(
        self, options: CpuOptions, threads: int | None, on: Processor | None = None
    ) -> None:
        """`on` replaces the processor of this machine."""
        self.options = options
        self._processor = on or processor()
        self.threads = _host.host_threads(threads)
        self.reason = ""

    def environment(self) -> Mapping[str, str]:
        return thread_environment(self.threads)

    def start(self) -> None:
        import torch

        _host.start_host(self.threads, self.options.deterministic)
        torch.set_float32_matmul_precision(self.float32_matmul)

    @property
    def float32_matmul(self) -> str:
        """The option; for "auto" the settled value."""
        asked = self.options.float32_matmul
        return str(self.settled()["float32_matmul"].value) if asked == "auto" else asked

    def settled(self) -> Mapping[str, Settled]:
        return {"float32_matmul": self._gemm}

    @cached_property
    def _gemm(self) -> Settled:
        return _gemm.settle(self._processor)

    def torch_device(self) -> torch.device:
        import torch

        return torch.device("cpu")

    def plan(self, batch_size: int, accumulate: int) -> BatchPlan:
        return BatchPlan(micro_batch=batch_size, accumulate=accumulate)

    def precision(self, requested: Literal["fp32", "bf16", "auto"]) -> Precision:
        if requested == "fp32":
            return Precision(name="fp32", reason="set by the user")
        unit = _gemm.bf16_unit(self._processor)
        if requested == "auto":
            more = f"; this processor has {unit}, so --precision bf16 may be faster" if unit else ""
            return Precision(name="fp32", reason=f"exact and bitwise repeatable on the cpu{more}")
        if unit:
            return Precision(name="bf16", reason=f"set by the user; autocast, with {unit}")
        slow = "this processor has no bf16 unit, so bf16 is slower than fp32"
        return Precision(
            name="bf16",
            reason=f"set by the user; autocast, but {slow}",
            note=f"--precision bf16 is set, but {slow}. Use --precision fp32.",
        )

    def autocast(self, precision: Precision) -> AbstractContextManager[Any]:
        return _host.autocast("cpu", precision)

    def to_device(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor

    def synchronize(self) -> None:
        """Does nothing: every operation has ended when its call returns."""

    def memory(self) -> Mapping[str, int]:
        return {}

    def empty_cache(self) -> None:
        """Does nothing: torch keeps no cache of host memory."""

    def rng_state(self) -> dict[str, torch.Tensor]:
        return _host.host_rng_state()

    def set_rng_state(self, state: Mapping[str, torch.Tensor]) -> None:
        _host.set_host_rng_state(state, self.name)


class CpuFactory:
    name = "cpu"
    options_type: type[Any] = CpuOptions
    preference = 20

    def availability(self) -> Availability:
        return Availability(ok=True)

    def create(self, options: Any, threads: int | None) -> CpuPolicy:
        return CpuPolicy(options, threads)


@hookimpl
def ttf_device(name: str) -> CpuFactory | None:
    return CpuFactory() if name == CpuFactory.name else None
