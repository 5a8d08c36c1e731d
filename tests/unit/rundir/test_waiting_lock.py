"""A lock of the cache that another process holds."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from filelock import FileLock

from ttf.rundir.waiting_lock import Patience, holder, wait_for

linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/locks")
SHORT = Patience(say_after_s=0.0, busy_s=0.3, unseen_s=0.1)


def test_a_free_lock_is_taken_without_a_word(tmp_path: Path) -> None:
    with wait_for(FileLock(tmp_path / "a.lock"), pytest.fail):
        pass


@linux
def test_whoever_waits_says_for_whom_and_gives_up_after_a_limit(tmp_path: Path) -> None:
    said: list[str] = []
    with FileLock(tmp_path / "a.lock"):
        assert holder(tmp_path / "a.lock") == os.getpid()
        with pytest.raises(TimeoutError, match=f"{os.getpid()}.* has held .*a.lock"):
            wait_for(FileLock(tmp_path / "a.lock", is_singleton=False), said.append, SHORT)
    assert len(said) == 1 and "ttf waits for it" in said[0]
    with wait_for(FileLock(tmp_path / "a.lock", is_singleton=False), pytest.fail):
        pass


def test_a_file_that_nobody_locked_has_no_holder(tmp_path: Path) -> None:
    (tmp_path / "a.lock").touch()
    assert holder(tmp_path / "a.lock") is None and holder(tmp_path / "b.lock") is None
