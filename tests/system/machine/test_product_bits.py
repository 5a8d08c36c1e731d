"""`ttf.machine.gemm`: digests that see which kernels a process computes with."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
import torch

from ttf.machine.gemm import product_bits
from ttf.machine.processor import processor

CODE = """
import json, torch
torch.set_num_threads(2)
torch.set_float32_matmul_precision("medium")
from ttf.machine.gemm import product_bits
print(json.dumps(product_bits(torch.device("cpu"))))
"""


OTHER_KERNELS = {
    "ATEN_CPU_CAPABILITY": "default",
    "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA,-FMA4",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "OPENBLAS_CORETYPE": "Prescott",
}


def bits_under(**variables: str) -> dict[str, str]:
    done = subprocess.run(
        [sys.executable, "-c", CODE],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, str] = json.loads(done.stdout)
    return found


def test_every_process_finds_the_same_whatever_its_settings() -> None:
    threads, way = torch.get_num_threads(), torch.get_float32_matmul_precision()
    assert product_bits(torch.device("cpu")) == bits_under()
    assert (torch.get_num_threads(), torch.get_float32_matmul_precision()) == (threads, way)


@pytest.mark.skipif("avx512f" not in processor().flags, reason="has only one kind of kernel")
def test_other_kernels_of_each_library_have_other_bits() -> None:
    bits, others = product_bits(torch.device("cpu")), bits_under(**OTHER_KERNELS)
    assert len(bits) == 4 and bits.keys() == others.keys()
    assert not set(bits.items()) & set(others.items())
