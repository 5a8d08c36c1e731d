"""The device `cuda` (NVIDIA GPUs): one of them, deterministic, bf16 where its cores have it.

Nothing here was run on NVIDIA hardware; see docs/devices.md.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path
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

BF16_SINCE = (8, 0)  # compute capability (Ampere) with tensor cores for bf16 and tf32


@dataclass(frozen=True, kw_only=True)
class CudaOptions:
    index: int = option(
        0,
        "number of the GPU, counted as in nvidia-smi among the visible GPUs",
        unit="no unit",
        ge=0,
        le=1023,
    )
    tf32: bool = option(
        False, "allow tf32 products in fp32: faster, but with a mantissa of 10 bits"
    )
    deterministic: bool = option(
        True, "refuse operations with results that may differ between runs"
    )


class CudaPolicy(_host.Accelerator):
    name = "cuda"
    constant_shapes = False
    options: CudaOptions

    def environment(self) -> Mapping[str, str]:
        settings = {
            **thread_environment(self.threads),
            # Otherwise indices follow speed, not nvidia-smi's order.
            "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        }
        if self.options.deterministic:
            settings["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
        return settings

    def start(self) -> None:
        import torch

        if not self.backend.is_available():
            raise PluginUnavailable(
                "The device cuda cannot be used, because torch finds no working GPU. Either torch "
                "was built without CUDA, or the driver is too old.",
                hint=(
                    "To check the driver, run nvidia-smi. To train on the CPU, use --device cpu."
                ),
            )
        count = int(self.backend.device_count())
        if self.options.index >= count:
            raise ConfigError(
                f"device.cuda.index is {self.options.index}, but torch finds only {count} GPU(s), "
                "and the first has the index 0.",
                hint="Choose a smaller index, or check CUDA_VISIBLE_DEVICES.",
            )
        _host.start_host(self.threads, self.options.deterministic)
        self.backend.set_device(self.options.index)
        torch.backends.cudnn.benchmark = not self.options.deterministic
        torch.backends.cudnn.deterministic = self.options.deterministic
        torch.backends.cudnn.allow_tf32 = self.options.tf32
        torch.set_float32_matmul_precision("high" if self.options.tf32 else "highest")

    def torch_device(self) -> torch.device:
        import torch

        return torch.device("cuda", self.options.index)

    def plan(self, batch_size: int, accumulate: int) -> BatchPlan:
        return BatchPlan(micro_batch=batch_size, accumulate=accumulate)

    def precision(self, requested: Literal["fp32", "bf16", "auto"]) -> Precision:
        """Reads the compute capability of the GPU, unless fp32 was asked for."""
        if requested == "fp32":
            how = "with tf32 products (device.cuda.tf32)" if self.options.tf32 else "without tf32"
            return Precision(name="fp32", reason=f"set by the user; {how}")
        major, minor = self.backend.get_device_capability(self.options.index)
        able = (major, minor) >= BF16_SINCE
        shown = f"compute capability {major}.{minor}"
        if requested == "bf16":
            how = (
                "tensor cores"
                if able
                else f"but {shown} only emulates bf16, so it is slower than fp32"
            )
            return Precision(name="bf16", reason=f"set by the user; autocast, {how}")
        if able:
            return Precision(name="bf16", reason=f"{shown} has bf16 tensor cores")
        return Precision(name="fp32", reason=f"{shown} has no bf16 tensor cores (8.0 or later has)")

    def autocast(self, precision: Precision) -> AbstractContextManager[Any]:
        return _host.autocast("cuda", precision)

    def synchronize(self) -> None:
        self.backend.synchronize(self.options.index)

    def memory(self) -> Mapping[str, int]:
        free, total = self.backend.mem_get_info(self.options.index)
        return {
            "allocated": int(self.backend.memory_allocated(self.options.index)),
            "reserved": int(self.backend.memory_reserved(self.options.index)),
            "peak": int(self.backend.max_memory_allocated(self.options.index)),
            "free": int(free),
            "total": int(total),
        }

    def rng_state(self) -> dict[str, torch.Tensor]:
        # All visible GPUs, as `cuda:0`, `cuda:1`, ...
        states = self.backend.get_rng_state_all()
        return {**_host.host_rng_state(), **{f"cuda:{i}": s for i, s in enumerate(states)}}

    def set_rng_state(self, state: Mapping[str, torch.Tensor]) -> None:
        count = int(self.backend.device_count())
        parts = [_host.rng_part(state, f"cuda:{i}", self.name) for i in range(count)]
        _host.set_host_rng_state(state, self.name)
        self.backend.set_rng_state_all(parts)


class CudaFactory:
    name = "cuda"
    options_type: type[Any] = CudaOptions
    preference = 30

    def availability(self) -> Availability:
        if not has_driver():
            return Availability(
                ok=False, reason="no NVIDIA driver was found", fix="Use --device cpu."
            )
        if not torch_has_cuda():
            return Availability(
                ok=False,
                reason="the installed torch was built without CUDA",
                fix="Install a CUDA build of torch (pytorch.org/get-started), or use --device cpu.",
            )
        return Availability(ok=True)

    def create(self, options: Any, threads: int | None) -> CudaPolicy:
        return CudaPolicy(options, threads)


def has_driver() -> bool:
    return (
        Path("/proc/driver/nvidia").exists()
        or shutil.which("nvidia-smi") is not None
        or _loader_knows("libcuda.so.1")
    )


def _loader_knows(library: str) -> bool:
    # Asks the dynamic loader of Linux. `ctypes.util.find_library` would start ldconfig and a C
    # compiler in every process that lists devices.
    with suppress(OSError):
        if library.encode() in Path("/etc/ld.so.cache").read_bytes():
            return True
    folders = os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep)
    return any((Path(folder) / library).exists() for folder in folders if folder)


def torch_has_cuda() -> bool:
    # Looks for the CUDA library among torch's files, without loading torch.
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        return False
    return any((Path(spec.origin).parent / "lib").glob("*torch_cuda*"))


@hookimpl
def ttf_device(name: str) -> CudaFactory | None:
    return CudaFactory() if name == CudaFactory.name else None
