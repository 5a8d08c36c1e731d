"""What every device shares: the host's threads, its determinism and its random generator."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ttf import ConfigError, usable_threads

if TYPE_CHECKING:
    import torch


def host_threads(requested: int | None, root: Path = Path("/")) -> int:
    """The threads asked for, else the processors this process may really use."""
    return requested if requested is not None else usable_threads(root)


def start_host(threads: int, deterministic: bool) -> None:
    """Threads and determinism of torch on the host; call once, after torch is loaded."""
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
    """One generator's state; raises ConfigError where a checkpoint of another device lacks it."""
    try:
        return state[name]
    except KeyError:
        raise ConfigError(
            f"The random state holds {', '.join(sorted(state)) or 'nothing'}, but the device "
            f"{device} needs {name!r}: it was saved on another device.",
            hint="Resume on the device the run was started on.",
        ) from None


def set_host_rng_state(state: Mapping[str, torch.Tensor], device: str) -> None:
    import torch

    torch.set_rng_state(rng_part(state, "cpu", device))
