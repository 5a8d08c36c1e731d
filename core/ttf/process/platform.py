"""The operating system, in one place so that dependencies on it are easy to find."""

from __future__ import annotations

import sys
from typing import Final

LINUX: Final = sys.platform == "linux"
MACOS: Final = sys.platform == "darwin"
