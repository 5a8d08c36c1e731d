"""A file that is written to while it is used is noticed even if its time of writing is set back."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import numpy as np
import pytest
from tests.kit.data_files import overwrite_and_set_back
from tests.kit.small_training import BANK, open_small

from ttf.data.set_back import ChangeTimes
from ttf.errors import DataChanged
from ttf.host.plugins import open_store


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


def test_of_files_without_checksums_it_is_said_that_nobody_can_tell(tmp_path: Path) -> None:
    (tmp_path / "set").mkdir()
    for path in (tmp_path / "bank.npy", tmp_path / "set" / "vectors.npy"):
        np.save(path, BANK)
        store = open_store(str(path if path.parent == tmp_path else path.parent))
        with contextlib.closing(store):
            times = ChangeTimes([store])
            times.check()
            assert times.unknown() == []
            overwrite_and_set_back(path, 1000)
            times.check()
            assert "no checksums" in times.unknown()[0]
