"""A machine's name: the same for the same machine, another where speed would be another."""

from __future__ import annotations

import platform
import re
from pathlib import Path

import pytest

from ttf.machine import processor


def test_the_name_is_that_of_a_folder_and_the_same_each_time() -> None:
    name = processor.fingerprint()
    assert name == processor.fingerprint()
    assert re.fullmatch(r"[a-z0-9-]+", name) and len(name) < 80


def test_neither_host_nor_user_is_told() -> None:
    text = f"{processor.describe()} {processor.fingerprint()}".lower()
    host = platform.node().lower()
    assert not host or host not in text
    assert str(Path.home()).lower() not in text


@pytest.mark.parametrize(
    "change",
    [{"threads": 99}, {"torch": "9.9"}, {"memory_gib": 1}, {"flags": ["avx2"]}, {"processor": "x"}],
    ids=lambda change: next(iter(change)),
)
def test_what_changes_speed_changes_the_name(
    monkeypatch: pytest.MonkeyPatch, change: dict[str, object]
) -> None:
    before, facts = processor.fingerprint(), processor.describe()
    monkeypatch.setattr(processor, "describe", lambda: {**facts, **change})
    assert processor.fingerprint() != before


def test_measurements_lie_in_the_cache_under_that_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TTF_HOME", str(tmp_path))
    assert processor.machine_dir() == tmp_path / "machine" / processor.fingerprint()
    assert not processor.machine_dir().exists()
