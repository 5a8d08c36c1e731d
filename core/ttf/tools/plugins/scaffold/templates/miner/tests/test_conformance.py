"""What ttf promises about every miner, asked of this one."""

from __future__ import annotations

from ttf.testing import MinerTests


class TestYourName(MinerTests):
    name = "your-name"


class TestYourNameInFloat32(MinerTests):
    """YOUR LIBRARY: a class for each setting that takes another path through it."""

    name = "your-name"
    options = {"sums": "float32", "block_rows": 1000}
    recall_floor = 0.99
