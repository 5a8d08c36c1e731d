"""Which system this is: asked here alone, so that one sees who depends on it."""

from __future__ import annotations

import sys
from typing import Final

LINUX: Final = sys.platform == "linux"
MACOS: Final = sys.platform == "darwin"
