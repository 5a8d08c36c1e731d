"""The operating system, in one place so that dependencies on it are easy to find."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

LINUX: Final = sys.platform == "linux"
MACOS: Final = sys.platform == "darwin"
# False in some sandboxes.
PROC: Final = LINUX and Path("/proc/self/stat").exists()
WITHOUT_PROC: Final = (
    "This system has no /proc. Without it, ttf cannot measure or limit memory, cannot recognise "
    "OOM kills, and cannot find processes that have left their session."
)
