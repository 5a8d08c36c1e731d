"""The built-in executor passes what a stranger's must."""

from __future__ import annotations

from tests.kit.suites import Variant

from ttf.testing import ExecutorTests


class TestLocal(Variant, ExecutorTests):
    name = "local"
