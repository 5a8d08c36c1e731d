"""Cases of which the suite runs one, and a campaign all."""

from __future__ import annotations

import os
from typing import Final

import pytest

CHAOS: Final = os.environ.get("TTF_CHAOS", "0") not in ("", "0")
wide = pytest.mark.skipif(not CHAOS, reason="one of many: TTF_CHAOS=1 runs it")
