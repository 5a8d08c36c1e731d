"""What the accelerators share: one device beside the host, reached through a module of torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ttf import Settled
from ttf_devices import _host

if TYPE_CHECKING:
    import torch


class Accelerator:
    """`backend` stands for the module `torch.<name>`; tests pass another object with its functions."""

    name: str
    rows_at_once = 0
    probe_at_start = True

    def __init__(self, options: Any, threads: int | None, backend: Any = None) -> None:
        self.options = options
        self.threads = _host.host_threads(threads)
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
