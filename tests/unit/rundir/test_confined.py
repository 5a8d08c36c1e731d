"""The doors to a folder of somebody else: nothing outside of it is read, written or removed."""

from __future__ import annotations

import json
import os
import re
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ttf.errors import ArtifactDamaged, EntryRefused
from ttf.rundir import confined, removing
from ttf.rundir.confined import raw_lines

Reader = Callable[[Path, Path], Any]
READERS: dict[str, Reader] = {
    "open": lambda path, inside: confined.open_inside(path, inside).close(),
    "read": lambda path, inside: confined.read_inside(path, inside, 1000),
    "end": lambda path, inside: confined.end_of(path, inside, 1000),
    "json": confined.read_json,
    "lines": lambda path, inside: list(raw_lines(path, inside)),
}
WRITERS: dict[str, Reader] = {
    "append": lambda path, inside: confined.append_inside(path, inside).close(),
    "write": lambda path, inside: confined.write_inside(path, inside, anew=True).close(),
}
SECRET = '{"secret": 1}'


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A folder with one document, beside a file and a folder that it must not reach."""
    (tmp_path / "secret").write_text(SECRET)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "secret").write_text(SECRET)
    folder = tmp_path / "run"
    (folder / "inner").mkdir(parents=True)
    (folder / "inner" / "document").write_text('{"ours": 1}')
    return folder


def device(path: Path) -> None:
    if os.geteuid():
        pytest.skip("only root makes devices")
    os.mknod(path, 0o020666, os.makedev(1, 5))  # /dev/zero


def bound_socket(path: Path) -> None:
    here = Path.cwd()
    os.chdir(path.parent)  # the address of a socket is short
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(path.name)
    os.chdir(here)


ENTRIES: dict[str, tuple[Callable[[Path], None], str]] = {
    "link": (lambda path: path.symlink_to("../../secret"), "a symbolic link"),
    "dangling link": (lambda path: path.symlink_to("nowhere"), "a symbolic link"),
    "link to itself": (lambda path: path.symlink_to(path.name), "a symbolic link"),
    "pipe": (os.mkfifo, "a named pipe"),
    "socket": (bound_socket, "a socket"),
    "device": (device, "a device"),
    "folder": (lambda path: path.mkdir(), "a folder"),
}


@pytest.mark.parametrize("door", [*READERS, *WRITERS])
@pytest.mark.parametrize("entry", ENTRIES)
def test_only_a_regular_file_is_opened_and_it_is_named_otherwise(
    run: Path, entry: str, door: str
) -> None:
    make, kind = ENTRIES[entry]
    path = run / "inner" / "entry"
    make(path)
    with pytest.raises(EntryRefused, match=re.escape(f"{path} is {kind}")):
        (READERS | WRITERS)[door](path, run)
    assert (run.parent / "secret").read_text() == SECRET


@pytest.mark.parametrize("door", [*READERS, *WRITERS])
@pytest.mark.parametrize(
    "path", ["link/secret", "link/deeper/secret", "../secret", "inner/../../x"]
)
def test_no_way_leads_out_of_the_folder(run: Path, path: str, door: str) -> None:
    (run / "link").symlink_to("../elsewhere")
    (run / "inner" / "link").symlink_to(run.parent)
    with pytest.raises(EntryRefused):
        (READERS | WRITERS)[door](run / path, run)
    assert not (run.parent / "x").exists()
    assert (run.parent / "secret").read_text() == SECRET


@pytest.mark.parametrize("name", ["/etc/passwd", "a\0b", "..", ""])
def test_a_name_from_a_document_cannot_be_a_path_to_somewhere_else(run: Path, name: str) -> None:
    assert not confined.is_plain_name(name)
    with pytest.raises(EntryRefused):
        confined.read_inside(run / name, run, 10)


def test_the_folder_that_the_user_names_may_be_a_link(run: Path) -> None:
    named = run.parent / "named"
    named.symlink_to(run)
    assert confined.read_json(named / "inner" / "document", named) == {"ours": 1}
    assert confined.names_in(named / "inner", named) == ["document"]
    confined.refuse_foreign(named, [], ["inner"])


def test_a_file_that_the_user_names_may_be_a_link_but_no_pipe(run: Path) -> None:
    (run / "named").symlink_to("../secret")
    assert confined.read_named(run / "named", 100) == SECRET.encode()
    os.mkfifo(run / "pipe")
    with pytest.raises(EntryRefused, match="named pipe"):
        confined.read_named(run / "pipe", 100)


def test_a_folder_that_is_a_link_is_not_listed(run: Path) -> None:
    (run / "link").symlink_to("../elsewhere")
    with pytest.raises(EntryRefused, match="symbolic link"):
        confined.names_in(run / "link", run)
    with pytest.raises(EntryRefused, match="symbolic link"):
        confined.refuse_foreign(run, [], ["link"])
    with pytest.raises(EntryRefused, match="symbolic link"):
        confined.refuse_foreign(run.parent, [], ["run"])
    confined.refuse_foreign(run, ["missing"], ["inner", "missing"])


@pytest.mark.parametrize("path", ["link", "link/secret", "link/secret2", "inner/link"])
def test_what_a_link_points_to_is_never_removed(run: Path, path: str) -> None:
    (run / "link").symlink_to("../elsewhere")
    (run / "inner" / "link").symlink_to(run.parent / "elsewhere")
    removing.remove_if_possible(run / path, run)
    removing.remove_if_possible(run / "inner", run)
    assert (run.parent / "elsewhere" / "secret").read_text() == SECRET
    assert (run.parent / "secret").read_text() == SECRET
    assert not (run / "inner").exists()


@pytest.mark.parametrize("path", ["../elsewhere", "../../elsewhere", "/etc", "", "inner/../.."])
def test_nothing_outside_is_removed(run: Path, path: str) -> None:
    for remove in (removing.remove, removing.remove_at_once):
        with pytest.raises(EntryRefused):
            remove(run / path, run, "test")
    assert (run.parent / "elsewhere" / "secret").exists()


def test_a_folder_is_removed_with_all_it_holds_whatever_that_is(run: Path) -> None:
    os.mkfifo(run / "inner" / "pipe")
    (run / "inner" / "deeper").mkdir()
    (run / "inner" / "deeper" / "link").symlink_to("/etc")
    removing.remove_at_once(run / "inner", run, "test")
    assert list(run.iterdir()) == []


def test_a_file_of_any_length_is_read_up_to_a_limit(run: Path) -> None:
    large = run / "large"
    with large.open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(ArtifactDamaged, match="large has more than"):
        confined.read_json(large, run)
    assert len(confined.end_of(large, run, 100)[0]) == 100
    assert sum(map(len, raw_lines(large, run))) == 8 << 20, "a file without lines is given up"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        '{"a": NaN}',
        '{"a": 1e999}',
        '{"a": -Infinity}',
        '{"a": ' + "9" * 100 + "}",
        "9" * 10_000,
        '{"a": "\ud800"}',
        "[" * 40 + "]" * 40,
        "[" * 100_000,
        '{"a":' * 100_000,
        "[" * 900 + "]" * 900,
    ],
    ids=lambda text: text[:12],
)
def test_a_document_that_is_none_or_too_much_is_damaged(run: Path, text: str) -> None:
    (run / "document.json").write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(ArtifactDamaged, match=r"document\.json is damaged: "):
        confined.read_json(run / "document.json", run)


@pytest.mark.parametrize("value", [1, "x", None, [], {"a": [{"b": [1.5, True, None]}]}, 1 << 63])
def test_other_documents_are_what_json_says(run: Path, value: Any) -> None:
    (run / "document.json").write_text(json.dumps(value))
    assert confined.read_json(run / "document.json", run) == value


def test_of_lines_only_objects_of_some_depth_count() -> None:
    assert confined.parsed_line(b'{"a": [1, 2]}\n') == {"a": [1, 2]}
    assert confined.parsed_line(json.dumps({"a": [[1]] * 100}).encode()) == {"a": [[1]] * 100}
    for raw in (b"[1]", b"1", b"{", b"[" * 500_000, b'{"a":' + b"[" * 40 + b"]" * 40 + b"}"):
        assert confined.parsed_line(raw) is None
