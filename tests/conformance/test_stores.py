"""The built-in storages pass what a stranger's must."""

from __future__ import annotations

from ttf.testing import StoreTests


class TestNpz(StoreTests):
    name = "npz"


class TestZarr(StoreTests):
    name = "zarr"
