"""The built-in storages pass what a stranger's must."""

from __future__ import annotations

import pytest
from tests.kit.suites import Variant
from tests.kit.widely import wide

from ttf.testing import StoreTests


class TestNpz(Variant, StoreTests):
    name = "npz"


class TestZarr(Variant, StoreTests):
    name = "zarr"


class TestObjects(Variant, StoreTests):
    name = "objects"
    test_kill_9_in_mid_save_leaves_the_old_or_the_new = wide(
        StoreTests.test_kill_9_in_mid_save_leaves_the_old_or_the_new
    )
    test_a_disk_that_takes_only_half_is_a_storage_error_and_keeps_nothing = wide(
        StoreTests.test_a_disk_that_takes_only_half_is_a_storage_error_and_keeps_nothing
    )


class TestSafetensors(Variant, StoreTests):
    name = "safetensors"
    test_kill_9_in_mid_save_leaves_the_old_or_the_new = wide(
        StoreTests.test_kill_9_in_mid_save_leaves_the_old_or_the_new
    )


class TestParquet(Variant, StoreTests):
    name = "parquet"
    test_kill_9_in_mid_save_leaves_the_old_or_the_new = wide(
        StoreTests.test_kill_9_in_mid_save_leaves_the_old_or_the_new
    )
    test_a_disk_that_takes_only_half_is_a_storage_error_and_keeps_nothing = wide(
        StoreTests.test_a_disk_that_takes_only_half_is_a_storage_error_and_keeps_nothing
    )

    @pytest.fixture(autouse=True)
    def _pyarrow(self) -> None:
        pytest.importorskip("pyarrow")
