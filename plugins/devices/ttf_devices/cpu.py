"""The device `cpu`: synchronous, deterministic, its threads fixed before torch loads."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ttf import hookimpl, option
from ttf.contracts import Availability, BatchPlan, Precision
from ttf_devices import _host

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, kw_only=True)
class CpuOptions:
    deterministic: bool = option(True, "refuse operations whose result may differ between runs")
    float32_matmul: Literal["highest", "high", "medium"] = option(
        "highest",
        "torch's float32 matmul precision; medium runs GRUs about 1.6x faster on AMD Zen 5 and "
        "as exactly, but means bf16 products where the processor has AMX",
    )


class CpuPolicy:
    """Host memory is device memory: nothing to move, to wait for or to clear."""

    name = "cpu"
    constant_shapes = False
    rows_at_once = 512
    probe_at_start = False

    def __init__(self, options: CpuOptions, threads: int | None) -> None:
        self.options = options
        self.threads = _host.host_threads(threads)
        self.reason = ""

    def environment(self) -> Mapping[str, str]:
        return _host.thread_environment(self.threads)

    def start(self) -> None:
        import torch

        _host.start_host(self.threads, self.options.deterministic)
        torch.set_float32_matmul_precision(self.options.float32_matmul)

    def torch_device(self) -> torch.device:
        import torch

        return torch.device("cpu")

    def plan(self, batch_size: int, accumulate: int) -> BatchPlan:
        return BatchPlan(micro_batch=batch_size, accumulate=accumulate)

    def precision(self, requested: Literal["fp32", "bf16", "auto"]) -> Precision:
        if requested == "fp32":
            return Precision(name="fp32", reason="asked for")
        unit = bf16_unit()
        if requested == "auto":
            more = f"; this processor has {unit}: try --precision bf16" if unit else ""
            return Precision(name="fp32", reason=f"exact and bitwise repeatable on cpu{more}")
        how = f"with {unit}" if unit else "but this processor has no bf16 unit: slower than fp32"
        return Precision(name="bf16", reason=f"asked for; autocast, {how}")

    def autocast(self, precision: Precision) -> AbstractContextManager[Any]:
        import torch

        if precision.name == "fp32":
            return nullcontext()
        return torch.autocast("cpu", dtype=torch.bfloat16)

    def to_device(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor

    def synchronize(self) -> None:
        """Nothing: every operation has ended when its call returns."""

    def memory(self) -> Mapping[str, int]:
        return {}

    def empty_cache(self) -> None:
        """Nothing: torch keeps no cache of host memory."""

    def rng_state(self) -> dict[str, torch.Tensor]:
        return _host.host_rng_state()

    def set_rng_state(self, state: Mapping[str, torch.Tensor]) -> None:
        _host.set_host_rng_state(state, self.name)


def bf16_unit(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """The processor's bf16 instructions by name, '' where it has none that we know of."""
    if sys.platform == "darwin":
        asked = subprocess.run(
            ["/usr/sbin/sysctl", "-n", "hw.optional.arm.FEAT_BF16"],
            capture_output=True,
            text=True,
            check=False,
        )
        return "FEAT_BF16" if asked.stdout.strip() == "1" else ""
    if not cpuinfo.exists():
        return ""
    flags: set[str] = set()
    for line in cpuinfo.read_text().splitlines():
        key, _, value = line.partition(":")
        if key.strip() in ("flags", "Features"):
            flags.update(value.split())
            break
    return next((unit for unit in ("amx_bf16", "avx512_bf16", "bf16") if unit in flags), "")


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
