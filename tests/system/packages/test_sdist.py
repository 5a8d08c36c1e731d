"""The source archive holds all that a wheel is made of."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from tests.conftest import ROOT


def test_the_wheel_from_the_sdist_is_the_wheel_from_the_tree(tmp_path: Path) -> None:
    sdist = _built("sdist", ROOT, tmp_path / "sdist")
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    unpacked = tmp_path / sdist.name.removesuffix(".tar.gz")
    from_tree = _contents(_built("wheel", ROOT, tmp_path / "one"))
    from_sdist = _contents(_built("wheel", unpacked, tmp_path / "other"))
    assert from_sdist == from_tree
    assert "ttf/cli.py" in from_tree and "ttf_towers/recurrent.py" in from_tree
    assert not [name for name in from_tree if name.startswith("tests/")]


def _built(target: str, tree: Path, out: Path) -> Path:
    pytest.importorskip("hatchling")
    code = "import sys; from hatchling.cli import hatchling; sys.exit(hatchling())"
    subprocess.run(
        [sys.executable, "-c", code, "build", "-t", target, "-d", str(out)],
        cwd=tree,
        check=True,
        capture_output=True,
    )
    (built,) = out.iterdir()
    return built


def _contents(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist() if "RECORD" not in name}
