"""What only torch knows about a node, asked in a process that is thrown away."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ttf.process.collector import paused_for_imports

if TYPE_CHECKING:
    from ttf.process.serve import Tell


def numbers(request: Mapping[str, Any], tell: Tell) -> dict[str, Any]:
    from ttf.machine import devices, processor

    tell({"at": "choosing the device"})
    policy = devices.choose(request["device"], request["options"], request["threads"])
    devices.prepare(policy)
    policy.start()
    tell({"at": "importing torch"})
    with paused_for_imports():
        import torch

        from ttf.machine.gemm import product_bits

    tell({"at": "computing fixed products"})
    return {
        "torch": torch.__version__,
        "capability": torch.backends.cpu.get_cpu_capability(),
        "instructions": processor.processor().instructions,
        "bits": product_bits(policy.torch_device()),
        "threads": policy.threads,
    }
