"""What is written can be read by everybody, and nothing half-written is ever left behind."""

from __future__ import annotations

import shutil
import subprocess
import zipfile
from pathlib import Path

import numpy as np
from tests.unit.plugins.storage.test_writers import ROWS, fill

from ttf.host.plugins import create_store


def test_an_npz_starts_every_array_on_a_page_and_is_plain_to_others(tmp_path: Path) -> None:
    path = tmp_path / "bank.npz"
    writer = create_store(str(path))
    fill(writer)
    writer.array("ids", (3,), "int64").append(np.arange(3))
    writer.array("half", (1, 2), "bfloat16").append(np.array([[1, 2]], np.uint16))
    writer.array("none", (0, 4), "float16")
    writer.commit()
    loaded = np.load(path)
    np.testing.assert_array_equal(loaded["vectors"], ROWS)
    assert str(loaded["half.dtype"]) == "bfloat16" and loaded["none"].shape == (0, 4)
    loaded.close()
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        assert all(not info.extra or len(info.extra) < 32 for info in archive.infolist())
    raw = path.read_bytes()
    assert raw.index(ROWS[:50].tobytes()) % 4096 == 0
    if shutil.which("unzip"):
        subprocess.run(["unzip", "-t", path], check=True, capture_output=True)
