"""What every device shares: the host's threads, its determinism and its random generator."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ttf.errors import ConfigError
from ttf.memory import cgroup

if TYPE_CHECKING:
    import torch

THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)


def host_threads(requested: int | None, root: Path = Path("/")) -> int:
    """The threads asked for, else the processors this process may really use."""
    if requested is not None:
        return requested
    allowed = usable_processors()
    quota = cgroup_quota(root)
    return max(1, allowed if quota is None else min(allowed, int(quota)))


def usable_processors() -> int:
    """The processors of this process's affinity mask, which containers and taskset narrow."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def cgroup_quota(root: Path = Path("/")) -> float | None:
    """The processors the cgroup of this process grants (2.5 = two and a half), None: no limit.

    More threads than that make every parallel region wait for the throttled ones.
    """
    quotas: list[float] = []
    for folder in cgroup.folders("cpu", root):
        v2 = cgroup.words(folder / "cpu.max")
        if len(v2) == 2 and v2[0] != "max":
            quotas.append(int(v2[0]) / int(v2[1]))
        quota = cgroup.words(folder / "cpu.cfs_quota_us")
        period = cgroup.words(folder / "cpu.cfs_period_us")
        if quota and period and int(quota[0]) > 0:
            quotas.append(int(quota[0]) / int(period[0]))
    return min(quotas) if quotas else None


def thread_environment(threads: int) -> dict[str, str]:
    return dict.fromkeys(THREAD_VARIABLES, str(threads))


def start_host(threads: int, deterministic: bool) -> None:
    """Threads and determinism of torch on the host; call once, after torch is loaded."""
    import torch

    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(deterministic)
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
