"""Host threads, determinism and random state for all devices, and the base of accelerators."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ttf import ConfigError, Precision, Settled, usable_threads

if TYPE_CHECKING:
    import torch


def host_threads(requested: int | None, root: Path = Path("/")) -> int:
    return requested if requested is not None else usable_threads(root)


def start_host(threads: int, deterministic: bool) -> None:
    """Sets threads and determinism of torch on the host. Call once, after torch is loaded."""
    import torch

    torch.set_num_threads(threads)
    # As torch.use_deterministic_algorithms, which also imports torch._inductor (0.8 s) to tell a
    # compiler that nothing here uses.
    torch.set_deterministic_debug_mode("error" if deterministic else "default")
    # It would fill every fresh tensor with NaN: a pass over memory that only helps code which
    # reads what it never wrote.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]


def host_rng_state() -> dict[str, torch.Tensor]:
    import torch

    return {"cpu": torch.get_rng_state()}


def rng_part(state: Mapping[str, torch.Tensor], name: str, device: str) -> torch.Tensor:
    """Returns the state of one generator. Raises ConfigError if another device saved the
    checkpoint."""
    try:
        return state[name]
    except KeyError:
        raise ConfigError(
            "The random state was saved on another device: it contains "
            f"{', '.join(sorted(state)) or 'nothing'}, but the device {device} needs {name!r}.",
            hint="Resume the run on the device on which it was started.",
        ) from None


def set_host_rng_state(state: Mapping[str, torch.Tensor], device: str) -> None:
    import torch

    torch.set_rng_state(rng_part(state, "cpu", device))


def autocast(device: str, precision: Precision) -> AbstractContextManager[Any]:
    import torch

    if precision.name == "fp32":
        return nullcontext()
    return torch.autocast(device, dtype=torch.bfloat16)


class Accelerator:
    """A device besides the host, used through a module of torch.

    `backend` replaces the module `torch.<name>` in tests.
    """

    name: str
    rows_at_once = 0
    probe_at_start = True

    def __init__(self, options: Any, threads: int | None, backend: Any = None) -> None:
        self.options = options
        self.threads = host_threads(threads)
        self.reason = ""
        self._given_backend = backend

    @property
    def backend(self) -> Any:
        if self._given_backend is not None:
            return self._given_backend
        import torch

        return getattr(torch, self.name)

    def settled(self) -> Mapping[str, Settled]:
        return {}

    def torch_device(self) -> torch.device:
        import torch

        return torch.device(self.name)

    def to_device(self, tensor: torch.Tensor) -> torch.Tensor:
        # Blocking: the gather thread reuses the host buffer as soon as this returns.
        return tensor.to(self.torch_device())

    def empty_cache(self) -> None:
        self.backend.empty_cache()
