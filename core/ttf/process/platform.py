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
    "There is no /proc here. ttf goes on without it: memory is neither measured nor kept below a "
    "limit, a kill for lack of memory looks like any other kill, and processes that leave their "
    "session are not found."
)
