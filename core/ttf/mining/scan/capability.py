"""Whether this processor multiplies bfloat16 matrices in hardware. From its flags, never a timing:
two runs of one seed must take the same path."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Literal

FirstPass = Literal["bf16", "fp32"]

_UNITS = ("avx512_bf16", "amx_bf16", "bf16")
"""As Linux lists them: AVX512-BF16 and AMX on x86, the BF16 extension on Arm."""


@functools.cache
def first_pass() -> FirstPass:
    """In which numbers a scan's first pass runs here: bfloat16 where the processor has units for
    it and the product that torch makes of them keeps the error bound; else float32."""
    return "bf16" if has_bf16_units() and _keeps_bound() else "fp32"


def has_bf16_units() -> bool:
    return any(unit in _flags() for unit in _UNITS)


@functools.cache
def _flags() -> frozenset[str]:
    """Linux says; elsewhere torch knows the x86 ones, and Apple's are asked for by name."""
    try:
        with Path("/proc/cpuinfo").open() as lines:
            for line in lines:
                name, _, value = line.partition(":")
                if name.strip() in ("flags", "Features"):
                    return frozenset(value.split())
    except OSError:
        return _flags_of_macos()
    return frozenset()


def _flags_of_macos() -> frozenset[str]:
    import subprocess

    asked = ["sysctl", "-n", "hw.optional.arm.FEAT_BF16"]
    try:
        done = subprocess.run(asked, capture_output=True, text=True, timeout=5, check=False)
    except (OSError, subprocess.SubprocessError):
        return frozenset()
    return frozenset(["bf16"]) if done.stdout.strip() == "1" else frozenset()


def _keeps_bound() -> bool:
    """A fixed product against float64: sums must be kept in float32 and rounded once, at the end.
    Terms of one sign and a long row: sums kept in bfloat16 would be off by percents."""
    import torch

    wave = torch.arange(96 * 1024, dtype=torch.float64).mul(0.7).sin().add(1.5)
    left = wave[: 32 * 1024].view(32, 1024).bfloat16()
    right = wave[32 * 1024 :].view(64, 1024).bfloat16()
    exact = left.double() @ right.double().T
    error = ((left @ right.T).double() - exact).abs() / exact
    return bool(error.max() <= 2.0**-8 + 1024 * 2.0**-23)
