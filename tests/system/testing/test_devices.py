"""The built-in devices pass what a stranger's must; those that are not here say so."""

from __future__ import annotations

from tests.kit.conformance.once import OneOfMany

from ttf.testing import DeviceTests


class TestCpu(OneOfMany, DeviceTests):
    name = "cpu"


class TestMps(DeviceTests):
    name = "mps"


class TestCuda(DeviceTests):
    name = "cuda"
