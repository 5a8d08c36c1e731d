"""A small file of somebody else cannot make a command take all memory."""

from __future__ import annotations

import resource
import sys
from pathlib import Path

import numpy as np
import pytest

from ttf.errors import BadData, ConfigError
from ttf.machine.memory.reading import ROOM, VARIABLE, limited_reading

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Linux limits what malloc gives")


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.bin"
    path.write_bytes(b"x" * 1000)
    return path


def test_a_small_file_that_takes_gigabytes_is_refused(small: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_DATA)
    with (
        pytest.raises(BadData, match=r"To read .*small\.bin takes more than"),
        limited_reading(small),
    ):
        np.zeros(2 * ROOM, np.uint8)
    assert resource.getrlimit(resource.RLIMIT_DATA) == before


def test_the_words_of_a_library_that_got_no_memory_count_too(small: Path) -> None:
    with pytest.raises(BadData, match="takes more than"), limited_reading(small):
        try:
            np.zeros(2 * ROOM, np.uint8)
        except MemoryError as error:
            raise BadData("the file is damaged: malloc of size 1 failed") from error


def test_other_errors_stay_what_they_are(small: Path) -> None:
    with pytest.raises(BadData, match="^no such array$"), limited_reading(small):
        raise BadData("no such array")


def test_a_large_file_may_take_more(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with (tmp_path / "folder/large.bin").open("wb") as file:
        file.truncate(ROOM)
    with limited_reading(tmp_path / "folder"):
        assert len(np.zeros(2 * ROOM, np.uint8)) == 2 * ROOM


@pytest.mark.parametrize("value", ["0", "8GB"])
def test_who_trusts_a_file_lifts_the_limit(
    small: Path, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, value)
    with limited_reading(small, None):
        assert len(np.zeros(2 * ROOM, np.uint8)) == 2 * ROOM


def test_a_limit_that_is_no_size_is_an_error(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "lots")
    with pytest.raises(ConfigError, match="TTF_READ_MEMORY is not a size"), limited_reading(small):
        pass


def test_a_lower_limit_of_the_user_stays(small: Path) -> None:
    own = resource.getrlimit(resource.RLIMIT_DATA)
    low = 1 << 40
    resource.setrlimit(resource.RLIMIT_DATA, (low, own[1]))
    try:
        with limited_reading(small):
            assert resource.getrlimit(resource.RLIMIT_DATA)[0] < low
        assert resource.getrlimit(resource.RLIMIT_DATA)[0] == low
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, own)
