"""Conformance suites for plugins: subclass the class of your kind and run pytest.

    from ttf.testing import MinerTests

    class TestMine(MinerTests):
        name = "mine"

Every plugin that comes with ttf passes the same classes. Needs pytest: pip install "twotower[testing]".
"""

from __future__ import annotations

from ttf.data.in_memory import MemorySource
from ttf.testing._banks import clustered_rows
from ttf.testing.devices import DeviceTests
from ttf.testing.miners import MinerTests
from ttf.testing.plugin import PluginTests
from ttf.testing.stores import StoreTests
from ttf.testing.towers import TowerTests

__all__ = [
    "DeviceTests",
    "MemorySource",
    "MinerTests",
    "PluginTests",
    "StoreTests",
    "TowerTests",
    "clustered_rows",
]
