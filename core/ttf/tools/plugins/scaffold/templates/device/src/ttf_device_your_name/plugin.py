"""What ttf imports of this package: the device's name, its options, and whether it is here.

ttf imports this module whenever the device is named, if only to show its options: it imports the
standard library and `ttf` alone. torch is imported by the functions of `_policy` that need it.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ttf import Availability, hookimpl, option

if TYPE_CHECKING:
    from ttf import DeviceFactory, DevicePolicy


@dataclass(frozen=True, kw_only=True)
class Options:
    """Set as `--set device.your-name.max_rows=256`, or in a file under [device.your-name]."""

    deterministic: bool = option(
        True, "refuse operations with results that may differ between runs"
    )
    max_rows: int = option(
        0,
        "maximum number of samples computed at a time; 0: no limit",
        unit="samples",
        ge=0,
        le=2**20,
    )
    bf16: bool = option(True, "compute in bfloat16 if the user sets --precision bf16")


class Factory:
    """Computes on the processor, as a device of its own would."""

    name = "your-name"
    options_type = Options
    preference = 0
    """Of use among the devices of ttf alone: `--device auto` never takes another one."""

    def availability(self) -> Availability:
        """A real device: looks for its driver (a file, a library), imports and starts nothing.
        Where it is missing, `ok=False`, the reason, and the command that installs it as `fix`."""
        if importlib.util.find_spec("torch") is None:
            return Availability(ok=False, reason="torch is not installed", fix="pip install torch")
        return Availability(ok=True)

    def create(self, options: Options, threads: int | None) -> DevicePolicy:
        """Called before torch is imported; `threads` None: the device chooses."""
        from ._policy import YourNamePolicy

        return YourNamePolicy(options, threads)


@hookimpl
def ttf_device(name: str) -> DeviceFactory | None:
    return Factory() if name == Factory.name else None
