"""The built-in storages pass what a stranger's must."""

from __future__ import annotations

from tests.kit.suites import Variant

from ttf.testing import StoreTests


class TestNpz(Variant, StoreTests):
    name = "npz"


class TestZarr(Variant, StoreTests):
    name = "zarr"
