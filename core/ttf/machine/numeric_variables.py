"""Environment variables that change numbers: noted at a run's start, set again when it is resumed.

Libraries read them when they load: call `set_again` before torch or numpy is imported. The note
comes from a run folder that a stranger may have written. So only names of a fixed list are set,
with values of a harmless form.
"""

from __future__ import annotations

import os
import re
import sys
from typing import Final

from ttf.machine.devices import set_by_prepare
from ttf.machine.thread_variables import THREAD_VARIABLES
from ttf.rundir.documents import Numeric

# They choose kernels, the order of sums, or the precision of products.
NAMES: Final = (
    *THREAD_VARIABLES,
    "ATEN_CPU_CAPABILITY",
    "TORCH_MKLDNN_MATMUL_MIN_DIM",
    "TORCH_MKLDNN_MATMUL_MIN_SIZE",
    "TORCH_LINEAR_FLATTEN_3D",
    "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE",
    "NVIDIA_TF32_OVERRIDE",
    "CUBLAS_WORKSPACE_CONFIG",
    "ONEDNN_MAX_CPU_ISA",
    "DNNL_MAX_CPU_ISA",
    "ONEDNN_CPU_ISA_HINTS",
    "DNNL_CPU_ISA_HINTS",
    "ONEDNN_DEFAULT_FPMATH_MODE",
    "DNNL_DEFAULT_FPMATH_MODE",
    "FBGEMM_ENABLE_INSTRUCTIONS",
    "FBGEMM_ENABLE_AVX512_256",
    "FBGEMM_FORCE_AUTOVEC",
    "FBGEMM_NO_AUTOVEC",
    "FBGEMM_NO_ASMJIT",
    "MKL_CBWR",
    "MKL_ENABLE_INSTRUCTIONS",
    "MKL_DEBUG_CPU_TYPE",
    "MKL_DYNAMIC",
    "MKL_DOMAIN_NUM_THREADS",
    "MKL_NUM_STRIPES",
    "OPENBLAS_CORETYPE",
    "OPENBLAS_DEFAULT_NUM_THREADS",
    "OPENBLAS_BLOCK_FACTOR",
    "OPENBLAS_L2_SIZE",
    "GOTO_NUM_THREADS",
    "OMP_SCHEDULE",
    "NPY_DISABLE_CPU_FEATURES",
    "NPY_ENABLE_CPU_FEATURES",
    "FAISS_OPT_LEVEL",
)
# They choose libraries, or functions of the C library, before Python runs. Noted, never set.
LOADER_NAMES: Final = ("GLIBC_TUNABLES", "LD_LIBRARY_PATH", "LD_PRELOAD")
# All of them name instruction sets, numbers or modes.
_VALUE: Final = re.compile(r"[A-Za-z0-9_.,:;=+ -]{1,200}")
_READERS: Final = ("numpy", "torch")


def noted(names: tuple[str, ...] = NAMES) -> dict[str, str]:
    """Those that are set for this process, without those that `prepare` set."""
    ours = set_by_prepare()
    return {
        name: value
        for name in names
        if (value := os.environ.get(name)) is not None and ours.get(name) != value
    }


def set_again(before: Numeric, instructions: str) -> list[str]:
    """Sets or removes the variables as a run noted them; returns sentences about what changed.

    Does nothing if that is too late for this process, or if the processor has other instructions
    (a variable may name some that this one lacks, and the run's numbers differ anyway). A variable
    that stays different is a difference of the run: see `ttf.training.manifest`.
    """
    wanted = before.get("variables")
    late = any(name in sys.modules for name in _READERS)
    if wanted is None or late or before.get("instructions") != instructions:
        return []
    here = noted()
    changed = []
    for name in NAMES:
        value = wanted.get(name)
        if here.get(name) == value or not _may_be_set(value):
            continue
        if value is None:
            del os.environ[name]
            changed.append(f"{name} unset (was {here[name]!r})")
        else:
            os.environ[name] = value
            changed.append(f"{name}={value} (was {shown(here.get(name))})")
    if not changed:
        return []
    return [
        "ttf sets these variables to their values at the start of the run, so that the "
        "results stay exact: " + ", ".join(changed)
    ]


def _may_be_set(value: str | None) -> bool:
    return value is None or _VALUE.fullmatch(value) is not None


def shown(value: str | None) -> str:
    return "unset" if value is None else repr(value)
