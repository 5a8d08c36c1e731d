"""A file that is written to while it is used is noticed even if its time of writing is set back."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.kit.data_files import overwrite_and_set_back
from tests.kit.small_training import BANK, open_small

from ttf.errors import DataChanged


def test_content_that_changed_is_refused_and_other_permissions_or_links_are_not(
    tmp_path: Path,
) -> None:
    with open_small(tmp_path) as data:
        [bank] = [Path(store.uri) for store in data.stores if "bank" in store.uri]
        bank.chmod(0o600)
        data.check_unchanged()
        os.link(bank, tmp_path / "snapshot.npz")
        data.check_unchanged()
        overwrite_and_set_back(bank, bank.read_bytes().index(BANK.tobytes()) + 100)
        for _ in range(2):
            with pytest.raises(DataChanged, match="was set back"):
                data.check_unchanged()
