"""The three built-in policies: plans, environments, precision; GPUs through a stand-in backend."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize("name", ["cpu", "mps", "cuda"])
def test_listing_and_asking_a_device_never_loads_torch(name: str) -> None:
    code = (
        "import sys; from ttf.host import plugins; f = plugins.load('device', sys.argv[1]); "
        "f.availability(); p = f.create(f.options_type(), None); p.environment(); "
        "assert p.threads >= 1; assert 'torch' not in sys.modules, 'torch was loaded'"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, name], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


# --- cpu -------------------------------------------------------------------------------------


def test_cpu_starts_with_its_threads_and_deterministic_and_cuda_on_its_gpu() -> None:
    """With TF32 as asked; one after the other in one process, which neither leaves as it was."""
    code = (
        "from ttf_devices.cpu import CpuOptions, CpuPolicy; import torch; "
        "CpuPolicy(CpuOptions(float32_matmul='medium'), 1).start(); "
        "assert torch.get_num_threads() == 1; "
        "assert torch.are_deterministic_algorithms_enabled(); "
        "assert not torch.is_deterministic_algorithms_warn_only_enabled(); "
        "assert not torch.utils.deterministic.fill_uninitialized_memory; "
        "import sys; assert 'torch._inductor' not in sys.modules, 'a second of every start'; "
        "assert torch.get_float32_matmul_precision() == 'medium'; "
        "from types import SimpleNamespace as S; "
        "from ttf_devices.cuda import CudaOptions, CudaPolicy; seen = []; "
        "b = S(is_available=lambda: True, device_count=lambda: 2, set_device=seen.append); "
        "CudaPolicy(CudaOptions(index=1, tf32=True), 1, b).start(); "
        "assert seen == [1]; assert torch.get_float32_matmul_precision() == 'high'; "
        "assert torch.backends.cudnn.deterministic and not torch.backends.cudnn.benchmark"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
