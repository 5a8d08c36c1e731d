"""The built-in storages pass what a stranger's must."""

from __future__ import annotations

from tests.kit.conformance.once import OneOfMany, Variant

from ttf.testing import StoreTests


class TestNpz(OneOfMany, StoreTests):
    name = "npz"


class TestZarr(Variant, StoreTests):
    name = "zarr"
