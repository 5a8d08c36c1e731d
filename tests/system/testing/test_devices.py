"""The built-in devices pass what a stranger's must; those that are not here say so."""

from __future__ import annotations

from tests.kit.suites import Variant

from ttf.testing import DeviceTests


class TestCpu(Variant, DeviceTests):
    name = "cpu"


class TestMps(DeviceTests):
    name = "mps"


class TestCuda(DeviceTests):
    name = "cuda"
