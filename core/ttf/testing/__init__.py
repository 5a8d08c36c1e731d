"""Conformance suites for plugins: subclass the class of your kind and run pytest.

    from ttf.testing import MinerTests

    class TestMine(MinerTests):
        name = "mine"

Every plugin that comes with ttf passes the same classes. Needs pytest: pip install "twotower[testing]".
Imported on first use: the children of a test begin with nothing loaded.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ttf.data.sources import MemorySource as MemorySource
    from ttf.testing._banks import clustered_rows as clustered_rows
    from ttf.testing.devices import DeviceTests as DeviceTests
    from ttf.testing.encoders import EncoderTests as EncoderTests
    from ttf.testing.executors import ExecutorTests as ExecutorTests
    from ttf.testing.exporters import ExporterTests as ExporterTests
    from ttf.testing.miners import MinerTests as MinerTests
    from ttf.testing.plugin import PluginTests as PluginTests
    from ttf.testing.stores import StoreTests as StoreTests
    from ttf.testing.towers import TowerTests as TowerTests

_HOMES = {
    "DeviceTests": "ttf.testing.devices",
    "EncoderTests": "ttf.testing.encoders",
    "ExecutorTests": "ttf.testing.executors",
    "ExporterTests": "ttf.testing.exporters",
    "MemorySource": "ttf.data.sources",
    "MinerTests": "ttf.testing.miners",
    "PluginTests": "ttf.testing.plugin",
    "StoreTests": "ttf.testing.stores",
    "TowerTests": "ttf.testing.towers",
    "clustered_rows": "ttf.testing._banks",
}

__all__ = [*_HOMES]  # noqa: PLE0604 - names are strings here as anywhere


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'ttf.testing' has no attribute {name!r}")
    if name.endswith("Tests"):
        _show_what_was_compared()
    return getattr(importlib.import_module(_HOMES[name]), name)


def _show_what_was_compared() -> None:
    # pytest then explains failed assertions of the suites as it does in test files.
    import pytest

    homes = {home for home in _HOMES.values() if home.startswith(f"{__name__}.")}
    pytest.register_assert_rewrite(*(home for home in homes if home not in sys.modules))


def __dir__() -> list[str]:
    return list(__all__)
