"""Real deaths of files that were cut, rewritten, or had no room."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from tests.kit.dying_process import finding_of, told

from ttf.incidents.inputs import InputFile

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the deaths are made for Linux")


TOUCH = """
import mmap, sys
with open({path!r}, 'rb') as file:
    mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
print('ready', flush=True)
sys.stdin.readline()
mapped[-1]
"""


def test_a_mapped_input_that_was_cut_is_named_with_both_sizes(tmp_path: Path) -> None:
    path = tmp_path / "pairs.npz"
    path.write_bytes(bytes(40_960))
    found = finding_of(
        TOUCH.format(path=str(path)),
        tmp_path,
        inputs=[InputFile.look(path)],
        during=lambda _: os.truncate(path, 4096),
    )
    assert (found.name, found.certain, found.ends_with) == ("bus-error", True, 3)
    assert f"truncated: {path} (before: 40,960 bytes" in found.explanation
    assert f"{path}: was 40,960 bytes, fingerprint " in told(found)
    assert "; is 4,096 bytes, fingerprint " in told(found)


def test_a_mapped_input_that_was_rewritten_with_fewer_pages_for_a_moment(tmp_path: Path) -> None:
    path = tmp_path / "bank.npz"
    path.write_bytes(bytes(40_960))

    def rewrite(child: subprocess.Popen[bytes]) -> None:
        os.truncate(path, 0)
        assert child.stdin is not None
        child.stdin.write(b"go\n")
        child.stdin.flush()
        child.wait(60)
        path.write_bytes(b"x" * 40_960)

    found = finding_of(
        TOUCH.format(path=str(path)), tmp_path, inputs=[InputFile.look(path)], during=rewrite
    )
    assert (found.name, found.certain, found.ends_with) == ("bus-error", False, 3)
    assert "was overwritten" in found.explanation


def test_a_bus_error_of_a_file_nobody_watches_blames_none_of_the_inputs(tmp_path: Path) -> None:
    path, other = tmp_path / "index", tmp_path / "pairs"
    path.write_bytes(bytes(40_960))
    other.write_bytes(b"pairs")
    found = finding_of(
        TOUCH.format(path=str(path)),
        tmp_path,
        inputs=[InputFile.look(other)],
        during=lambda _: os.truncate(path, 4096),
    )
    assert (found.name, found.ends_with) == ("bus-error", None)
    assert "found no change in the input files" in found.explanation


def test_a_map_on_a_full_disk_is_a_bus_error_that_says_so(tmp_path: Path, small_disk: Path) -> None:
    code = f"""
        import mmap, os
        fd = os.open({str(small_disk / "index")!r}, os.O_RDWR | os.O_CREAT)
        os.ftruncate(fd, 8 << 20)
        mapped = mmap.mmap(fd, 8 << 20)
        for at in range(0, 8 << 20, 4096): mapped[at] = 1
    """
    found = finding_of(textwrap.dedent(code), tmp_path, folders=[small_disk])
    assert found.name == "bus-error"
    assert f"({small_disk}: 0 B free)" in found.explanation


def test_a_full_disk_is_named(tmp_path: Path, small_disk: Path) -> None:
    code = f"open({str(small_disk / 'log')!r}, 'wb').write(bytes(4 << 20))"
    found = finding_of(code, tmp_path, folders=[small_disk])
    assert (found.name, found.certain, found.ends_with) == ("disk-full", True, 8)
    assert "No space left on device" in told(found)


def test_an_error_after_an_input_changed_points_at_the_input(tmp_path: Path) -> None:
    path = tmp_path / "bank.npz"
    path.write_bytes(bytes(100))
    found = finding_of(
        "raise ValueError('row 7 is not finite')",
        tmp_path,
        inputs=[InputFile.look(path)],
        during=lambda _: path.write_bytes(b"other"),
    )
    assert (found.name, found.certain, found.ends_with) == ("data-changed", False, 3)
