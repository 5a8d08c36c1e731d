"""`ttf.machine.devices`: which device "auto" means, and preparing the process for it."""

from __future__ import annotations

import subprocess
import sys

from tests.unit.machine.test_choosing import own_environment  # noqa: F401


def test_choosing_and_preparing_leave_torch_unloaded_and_reach_it_in_time() -> None:
    code = (
        "import sys; from ttf.machine import devices; p = devices.choose('auto', {}, 1); "
        "notes = devices.prepare(p).notes; assert notes == (), notes; "
        "assert 'torch' not in sys.modules; import torch; p.start(); "
        "assert torch.get_num_threads() == 1"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
