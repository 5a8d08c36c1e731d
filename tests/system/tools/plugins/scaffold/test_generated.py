"""Generated packages, as they are: no remark of ruff or mypy, whatever the plugin is called."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from ttf.tools.plugins.scaffold import package
from ttf.tools.plugins.scaffold.naming import LONGEST, Naming

if TYPE_CHECKING:
    from ttf.contracts import Kind

KINDS = package.kinds()
NAMES = ("x", "my-index", "b" * LONGEST)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A package of every kind for every name, in NAME/KIND."""
    place = tmp_path_factory.mktemp("generated")
    for name in NAMES:
        for kind in KINDS:
            naming = Naming(kind=cast("Kind", kind), name=name)
            package.write(package.rendered(naming), place / name / kind)
    return place


def tool(name: str, *argv: str | Path, cwd: Path) -> str:
    """What it complains about; "" where it is content."""
    done = subprocess.run(
        [Path(sys.executable).with_name(name), *argv],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    return "" if done.returncode == 0 else done.stdout + done.stderr


def test_ruff_has_nothing_to_say(written: Path) -> None:
    assert tool("ruff", "check", "--no-cache", cwd=written) == ""


def test_they_are_formatted(written: Path) -> None:
    assert tool("ruff", "format", "--no-cache", "--check", "--diff", cwd=written) == ""


@pytest.mark.skipif(not os.environ.get("TTF_CHAOS"), reason="one of many: TTF_CHAOS=1 runs it")
def test_mypy_has_nothing_to_say(written: Path, tmp_path: Path) -> None:
    """With the configuration of each package; make types looks at what they are written from."""
    said = {
        kind: tool("mypy", "--cache-dir", tmp_path / "cache", cwd=written / "my-index" / kind)
        for kind in KINDS
    }
    assert said == dict.fromkeys(KINDS, "")
