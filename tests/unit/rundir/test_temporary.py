"""Temporary files: nobody can put a link in their place, and those of dead writers go."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ttf.commands._data_common import check_outputs
from ttf.data.writing import check_output
from ttf.errors import ConfigError
from ttf.rundir.durable import OpenFile
from ttf.rundir.outputs import refuse_to_replace, temporary_file, temporary_folder, write_output


def test_a_new_file_never_writes_through_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("mine")
    (tmp_path / "name").symlink_to("victim")
    with pytest.raises(FileExistsError):
        OpenFile(tmp_path / "name", "test")
    assert (tmp_path / "victim").read_text() == "mine"


def test_names_cannot_be_foreseen(tmp_path: Path) -> None:
    made = [temporary_file(tmp_path / "page.html") for _ in range(3)]
    for temporary in made:
        temporary.close()
    assert len({temporary.path.name for temporary in made}) == 1 + 1 + 1
    assert all(temporary.path.name.startswith(".tmp-page.html-") for temporary in made)


def test_what_dead_writers_left_goes_and_what_a_living_one_writes_stays(tmp_path: Path) -> None:
    target = tmp_path / "page.html"
    living = [temporary_file(target), temporary_folder(target)]
    dead = [temporary_file(target), temporary_folder(target)]
    (dead[1].path / "part").write_text("torn")
    for temporary in dead:
        temporary.close()
    old = tmp_path / ".tmp-page.html-4711.0"  # as earlier versions called it
    old.write_text("torn")
    try:
        write_output(target, b"page")
        assert all(temporary.path.exists() for temporary in living)
        assert not any(temporary.path.exists() for temporary in dead) and not old.exists()
    finally:
        for temporary in living:
            temporary.remove()
    assert target.read_bytes() == b"page"


@pytest.mark.parametrize(
    "name",
    [".tmp-other-0123456789ab", ".tmp-old-page.html-0123456789ab", ".tmp-page.html-4711-old", "x"],
)
def test_other_names_are_not_taken_for_leftovers(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("kept")
    write_output(tmp_path / "page.html", b"page")
    assert (tmp_path / name).read_text() == "kept"


def test_what_others_put_there_is_not_touched(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "file").write_text("mine")
    (tmp_path / ".tmp-page.html-0123456789ab").symlink_to(victim)
    os.mkfifo(tmp_path / ".tmp-page.html-0123456789ac")
    write_output(tmp_path / "page.html", b"page")
    assert (victim / "file").exists()
    assert len(list(tmp_path.iterdir())) == 4


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files to other users")
def test_leftovers_of_another_user_stay(tmp_path: Path) -> None:
    left = tmp_path / ".tmp-page.html-0123456789ab"
    left.write_text("theirs")
    os.chown(left, 12345, 12345)
    write_output(tmp_path / "page.html", b"page")
    assert left.exists()


@pytest.mark.parametrize("linked", [False, True])
def test_an_output_replaces_no_pipe_and_no_device(tmp_path: Path, linked: bool) -> None:
    pipe = tmp_path / "pipe.npz"
    os.mkfifo(pipe)
    target = tmp_path / "link.npz" if linked else pipe
    if linked:
        target.symlink_to(pipe)
    doors: tuple[Callable[[], object], ...] = (
        lambda: write_output(target, b"page"),
        lambda: temporary_file(target),
        lambda: temporary_folder(target),
        lambda: refuse_to_replace("--out", target, overwrite=True),
        lambda: check_output(str(target), overwrite=True),
        lambda: check_outputs([str(target)], overwrite=True),
    )
    for door in doors:
        with pytest.raises(ConfigError, match="is a device, a pipe or a socket"):
            door()
    assert pipe.is_fifo() and target.is_symlink() is linked
    assert len(list(tmp_path.iterdir())) == 1 + linked
    with pytest.raises(ConfigError, match=r"^--out /dev/null is a device"):
        refuse_to_replace("--out", Path("/dev/null"), overwrite=True)
