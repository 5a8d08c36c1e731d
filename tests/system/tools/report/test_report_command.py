"""`ttf report` as a person meets it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.conftest import Invoke


@pytest.fixture
def read_only(guard_dir: Path) -> Iterator[Path]:
    here = str(guard_dir)
    done = subprocess.run(["mount", "--bind", here, here], capture_output=True, check=False)
    if done.returncode:
        pytest.skip(f"nothing can be mounted here ({done.stderr.decode().strip()})")
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", here], check=True)
        yield guard_dir
    finally:
        subprocess.run(["umount", "-l", here], check=True)


def test_a_folder_that_takes_nothing_is_reported_on_somewhere_else(
    read_only: Path, tmp_path: Path, invoke: Invoke
) -> None:
    done = invoke(["report", str(read_only)])
    assert done.code == 8
    assert f"ttf report {read_only} --out report.html" in done.err
    page, bundle = tmp_path / "r.html", tmp_path / "b.zip"
    done = invoke(["report", str(read_only), "--out", str(page), "--bundle", str(bundle)])
    assert done.code == 0, done.err
    assert page.is_file() and bundle.is_file()
