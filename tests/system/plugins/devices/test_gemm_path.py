"""Which way float32 products go: the table row by row, the tuned row, and what is recorded."""

from __future__ import annotations

import subprocess
import sys

from tests.unit.plugins.devices.test_gemm_path import own_home, row  # noqa: F401

from ttf.machine import measured


def test_two_processes_with_one_configuration_decide_alike_and_load_no_torch() -> None:
    code = (
        "import sys; from ttf.machine import devices; p = devices.choose('auto', {}, 2); "
        "print(p.float32_matmul, p.settled(), p.precision('auto')); "
        "assert 'torch' not in sys.modules and 'numpy' not in sys.modules"
    )

    def decided() -> str:
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        )
        return done.stdout

    first = decided()
    assert first == decided() and "float32_matmul" in first
    measured.save_row(row(why="measured"))
    assert decided() != first
    assert decided() == decided()
