"""What the supervisor decides, one situation after the other. No process, no clock."""

from __future__ import annotations

import subprocess
import sys

# --- the house ------------------------------------------------------------------------------------


def test_deciding_is_light() -> None:
    code = "import sys, ttf.supervise.decide; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy = {"torch", "numpy", "pydantic", "rich", "psutil", "click"}
    assert not heavy & set(done.stdout.split())
