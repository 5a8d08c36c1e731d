"""environment.json: the environment of the command. Reads only metadata, imports nothing."""

from __future__ import annotations

import os
import platform
import re
import sys
import time
from importlib import metadata
from typing import Final

from ttf.host.version import __version__
from ttf.rundir.documents import RUN_FORMAT, Manifest
from ttf.tools.guard.options import GuardOptions
from ttf.tools.guard.stacks import Interpreter

_LIBRARIES: Final = (
    *("torch", "numpy", "scipy", "scikit-learn", "faiss-cpu", "faiss-gpu", "hnswlib", "zarr"),
    *("transformers", "datasets", "accelerate", "lightning", "pytorch-lightning", "jax"),
    *("tensorflow", "pyarrow", "pandas", "lightgbm", "xgboost", "intel-openmp", "mkl"),
)
# Settings of threads, devices and allocators; no other variable is recorded.
_VARIABLES: Final = re.compile(
    r"(?:OMP|KMP|GOMP|MKL|OPENBLAS|GOTO|VECLIB|NUMEXPR|BLIS|PYTORCH|TORCH|CUDA|NCCL|MALLOC)_\w+"
    r"|LD_PRELOAD|DYLD_INSERT_LIBRARIES|PYTHONFAULTHANDLER|PYTHONMALLOC|TMPDIR"
)


def surroundings(options: GuardOptions, found: Interpreter | None) -> Manifest:
    # Here, not above: a guard that keeps nothing does not need them.
    from ttf.machine import processor
    from ttf.machine.memory.limits import physical_bytes

    path = list(found.path) if found is not None else sys.path
    return {
        "format": RUN_FORMAT,
        "ttf": __version__,
        "command": list(options.words),
        "time": time.time(),
        "platform": platform.platform(),
        "cpus": os.cpu_count(),
        "processor": processor.name(),
        "memory_bytes": physical_bytes(),
        "python": found.version if found is not None else platform.python_version(),
        "python_of": found.executable if found is not None else f"ttf itself: {sys.executable}",
        "versions": _versions(path),
        "variables": {k: v for k, v in sorted(os.environ.items()) if _VARIABLES.fullmatch(k)},
    }


def _versions(path: list[str]) -> dict[str, str]:
    found = {}
    for name in _LIBRARIES:
        first = next(iter(metadata.distributions(name=name, path=path)), None)
        if first is not None:
            found[name] = first.version
    return found
