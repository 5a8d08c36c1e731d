"""Bad .npz and .npy files get one message that names the thing; none crashes or runs code."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import struct
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from numpy.typing import NDArray

from ttf.data.convert import convert
from ttf.data.inspect import verify
from ttf.errors import (
    ArrayMissing,
    BadData,
    DataChanged,
    DataCompressed,
    DataMissing,
    StorageError,
    TtfError,
)
from ttf.host.plugins import open_store
from ttf_storage import _zip_format

ROWS: NDArray[np.float32] = np.arange(60, dtype=np.float32).reshape(20, 3)


def npy(array: NDArray[Any]) -> bytes:
    stream = io.BytesIO()
    np.lib.format.write_array(stream, array, allow_pickle=True)
    return stream.getvalue()


def zip_of(path: Path, *members: tuple[str, bytes]) -> None:
    with zipfile.ZipFile(path, "w") as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # zipfile's remark on duplicate names
        for name, content in members:
            archive.writestr(name, content)


class Runs:
    """Unpickling it makes a file."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, ("executed",)


def pickled(path: Path) -> None:
    zip_of(path, ("vectors.npy", npy(np.array([Runs()], dtype=object))))


def encrypted(path: Path) -> None:
    zip_of(path, ("vectors.npy", npy(ROWS)))
    raw = bytearray(path.read_bytes())
    raw[raw.index(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(raw)


def cut_in_half(path: Path) -> None:
    np.savez(path, vectors=ROWS)
    path.write_bytes(path.read_bytes()[:200])


def declares_too_much(path: Path) -> None:
    raw = npy(ROWS).replace(b"(20, 3)", b"(90, 3)")
    zip_of(path, ("vectors.npy", raw))


def directory_declares_too_much(path: Path) -> None:
    zip_of(path, ("vectors.npy", npy(ROWS)))
    raw = bytearray(path.read_bytes())
    place = raw.index(b"PK\x01\x02")
    raw[place + 20 : place + 28] = struct.pack("<2L", 10**6, 10**6)
    path.write_bytes(raw)


def bytes_of(content: bytes) -> Callable[[Path], None]:
    return lambda path: (path.write_bytes(content), None)[1]


def one_array(array: NDArray[Any]) -> Callable[[Path], None]:
    return lambda path: np.savez(path, vectors=array)


def members(*given: tuple[str, bytes]) -> Callable[[Path], None]:
    return lambda path: zip_of(path, *given)


GOOD = ("vectors.npy", npy(ROWS))
BAD: dict[str, tuple[Callable[[Path], None], str]] = {
    "empty": (bytes_of(b""), "truncated: it has 0 bytes"),
    "one byte": (bytes_of(b"P"), "truncated: it has 1 bytes"),
    "text": (bytes_of(b"no zip at all, but long enough"), "not a zip archive"),
    "npy inside": (bytes_of(npy(ROWS)), "a .npy file with a different file ending"),
    "cut": (cut_in_half, "truncated or damaged"),
    "pickle": (pickled, "pickled Python objects. ttf does not load them"),
    "complex": (one_array(ROWS.astype(np.complex64)), "must contain numbers"),
    "uint64": (one_array(ROWS.astype(np.uint64)), "has the type uint64, but it must be float32"),
    "uint16": (one_array(ROWS.astype(np.uint16)), "For bfloat16, add a string member"),
    "text array": (one_array(np.array(["a", "b"])), "must contain numbers"),
    "single number": (
        one_array(np.array(3.0, np.float32)),
        "a single number, but it must have rows",
    ),
    "declared shape": (declares_too_much, "truncated: according to its header"),
    "declared size": (directory_declares_too_much, "truncated: it should end at byte"),
    "duplicate": (members(GOOD, GOOD), "2 members named 'vectors.npy'"),
    "climbs out": (members(("../vectors.npy", npy(ROWS))), "a path outside the archive"),
    "absolute": (members(("/vectors.npy", npy(ROWS))), "a path outside the archive"),
    "encrypted": (encrypted, "is encrypted"),
    "no npy": (members(("vectors.npy", b"hello, this is text")), "not a numpy array"),
    "short header": (members(("vectors.npy", b"\x93NUM")), "truncated: it has only 4 bytes"),
    "marker": (
        members(GOOD, ("vectors.dtype.npy", npy(np.array("bfloat16")))),
        "marked as bfloat16, but it has the type float32",
    ),
}


@pytest.mark.parametrize(("make", "message"), BAD.values(), ids=BAD.keys())
def test_a_bad_file_is_refused_by_name(
    make: Callable[[Path], None], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "bank.npz"
    make(path)
    with pytest.raises(BadData) as caught:
        open_store(str(path)).source("vectors")
    assert message in str(caught.value)
    assert "bank.npz" in str(caught.value)
    assert not (tmp_path / "executed").exists()


def test_a_compressed_member_is_refused_with_the_line_that_converts_it(tmp_path: Path) -> None:
    path = tmp_path / "my bank.npz"
    np.savez_compressed(path, vectors=ROWS)
    store = open_store(str(path))
    with pytest.raises(DataCompressed) as caught:
        store.source("vectors")
    target = tmp_path / "my bank-stored.npz"
    assert f"ttf data convert '{path}' '{target}'" in caught.value.hint
    assert store.describe("vectors")["stored"] == "deflated"
    assert store.describe("vectors")["shape"] == [20, 3]
    store.close()


def test_a_missing_file_and_a_missing_array_name_what_is_there(tmp_path: Path) -> None:
    np.savez(tmp_path / "bank.npz", vectors=ROWS)
    with pytest.raises(DataMissing, match=r"bnak\.npz: there is no such file.*bank\.npz"):
        open_store(str(tmp_path / "bnak.npz"))
    store = open_store(str(tmp_path / "bank.npz"))
    with pytest.raises(ArrayMissing, match="Did you mean 'vectors'"):
        store.source("vector")
    store.close()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda p: os.truncate(p, 100), "was truncated from"),
        (lambda p: p.unlink(), "was deleted"),
        (lambda p: p.with_name("other.npz").replace(p), "was replaced by another file"),
        (lambda p: os.utime(p, ns=(1, 1)), "was overwritten"),
    ],
    ids=["cut", "removed", "replaced", "rewritten"],
)
def test_a_change_under_a_running_reader_is_named(
    change: Callable[[Path], None], message: str, tmp_path: Path
) -> None:
    path = tmp_path / "bank.npz"
    np.savez(path, vectors=ROWS)
    np.savez(path.with_name("other.npz"), vectors=ROWS)
    store = open_store(str(path))
    store.check_unchanged()
    change(path)
    with pytest.raises(DataChanged, match=message):
        store.check_unchanged()
    store.close()


@pytest.mark.parametrize("order", ["C", "F"])
def test_a_flipped_bit_is_found_by_verify_and_not_copied_by_convert(
    tmp_path: Path, order: Literal["C", "F"]
) -> None:
    path = tmp_path / "bank.npz"
    np.savez(path, vectors=np.asarray(ROWS, order=order), ids=np.arange(20))
    raw = bytearray(path.read_bytes())
    raw[raw.index(ROWS.tobytes(order)[100:140])] ^= 1
    path.write_bytes(raw)
    store = open_store(str(path))
    problems = list(store.verify())
    assert len(problems) == 1 and "'vectors' is damaged: its checksum is" in problems[0]
    store.close()
    with pytest.raises(BadData, match="'vectors' is damaged"):
        convert(str(path), str(tmp_path / "copy.npz"))
    assert not (tmp_path / "copy.npz").exists()


def test_an_archive_without_arrays_is_not_sound(tmp_path: Path) -> None:
    zip_of(tmp_path / "bank.npz", ("readme.txt", b"vectors were here"))
    [problem] = verify(str(tmp_path / "bank.npz")).problems
    assert "bank.npz contains no arrays" in problem


def test_what_the_archiver_of_macos_adds_is_no_array(tmp_path: Path) -> None:
    path = tmp_path / "bank.npz"
    zip_of(path, ("vectors.npy", npy(ROWS)), ("__MACOSX/._vectors.npy", b"\x00\x05\x16\x07"))
    with contextlib.closing(open_store(str(path))) as store:
        assert list(store.names()) == ["vectors"]
        assert not list(store.verify())


def test_members_with_sizes_behind_the_data_are_mapped(tmp_path: Path) -> None:
    """A zip written to a pipe has no sizes in its local headers."""
    stream = Unseekable()
    np.savez(stream, vectors=ROWS)
    path = tmp_path / "bank.npz"
    path.write_bytes(stream.written)
    store = open_store(str(path))
    np.testing.assert_array_equal(store.source("vectors").gather(np.array([3, -1])), ROWS[[3, -1]])
    assert list(store.verify()) == []
    store.close()


class Unseekable(io.RawIOBase):
    """Like a pipe."""

    def __init__(self) -> None:
        self.written = b""

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False

    def write(self, data: Any) -> int:
        self.written += bytes(data)
        return len(bytes(data))


def test_views_outlive_the_store_that_gave_them(tmp_path: Path) -> None:
    path = tmp_path / "bank.npy"
    np.save(path, ROWS)
    store = open_store(str(path))
    view = store.source("vectors").read(2, 5)
    assert not view.flags.writeable
    store.close()
    np.testing.assert_array_equal(view, ROWS[2:5])


def _file(ending: str) -> bytes:
    stream = io.BytesIO()
    if ending == "npy":
        np.save(stream, ROWS)
    elif ending == "npz":
        np.savez(stream, vectors=ROWS, ids=np.arange(20))
    else:
        np.savez_compressed(stream, vectors=ROWS, ids=np.arange(20))
    return stream.getvalue()


@pytest.mark.parametrize("ending", ["npz", "npy", "deflated"])
@settings(max_examples=250, deadline=None, derandomize=True, database=None)
@given(data=st.data())
def test_any_damage_ends_in_a_named_error_or_in_the_right_data(
    ending: str, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    raw = bytearray(_file(ending))
    header = st.integers(0, min(len(raw), 260) - 1)
    footer = st.integers(max(0, len(raw) - 300), len(raw) - 1)
    for place in data.draw(st.lists(st.one_of(header, footer), max_size=4)):
        raw[place] = data.draw(st.integers(0, 255))
    damaged = bytes(raw[: data.draw(st.one_of(st.just(len(raw)), st.integers(0, len(raw))))])
    suffix = "npy" if ending == "npy" else "npz"
    path = tmp_path_factory.getbasetemp() / f"fuzz-{ending}.{suffix}"
    path.write_bytes(damaged)
    try:
        store = open_store(str(path))
    except TtfError:
        return
    try:
        for name in store.names():
            with contextlib.suppress(TtfError):  # a member that says it is encrypted, ...
                store.describe(name)
            _read_or_refuse(store, name)
        with contextlib.suppress(TtfError):
            list(store.verify())
    finally:
        store.close()


def _read_or_refuse(store: Any, name: str) -> None:
    try:
        for block in store.stream(name).blocks:
            del block
        source = store.source(name)
    except TtfError:
        return
    rows = source.gather(np.arange(source.shape[0]))
    assert rows.shape == source.shape


class FailingDisk(io.BytesIO):
    """The end of a file on a disk that no longer answers."""

    def read(self, size: int | None = -1, /) -> bytes:
        raise OSError(errno.EIO, os.strerror(errno.EIO))


def test_a_disk_that_fails_is_not_called_a_damaged_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """zipfile takes an error of the disk for a file that is no zip."""
    zip_of(tmp_path / "bank.npz", ("vectors.npy", npy(ROWS)))
    monkeypatch.setattr(_zip_format, "open_named", lambda path: FailingDisk(path.read_bytes()))
    with pytest.raises(StorageError, match="Input/output error"):
        open_store(str(tmp_path / "bank.npz"))


def test_a_file_with_more_arrays_than_any_data_set_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ttf.host.plugins._MOST_ARRAYS", 3)
    path = tmp_path / "many.npz"
    with zipfile.ZipFile(path, "w") as file:
        for number in range(3):
            file.writestr(f"a{number}.npy", npy(ROWS))
    open_store(str(path)).close()
    with zipfile.ZipFile(path, "a") as file:
        file.writestr("a3.npy", npy(ROWS))
    with pytest.raises(BadData, match="has 4 arrays; ttf reads files with at most 3"):
        open_store(str(path))


def test_strings_that_take_no_room_in_the_file_are_not_unpacked(tmp_path: Path) -> None:
    """A file of 200 kB: numpy holds each string in the width of the longest."""
    path = tmp_path / "ids.npz"
    np.savez_compressed(path, vectors=ROWS, ids=np.zeros(20, "U2000000"))
    store = open_store(str(path))
    with pytest.raises(BadData, match=r"unpack to 0\.2 GB of strings"):
        store.text("ids")  # type: ignore[attr-defined]
    store.close()
    np.savez_compressed(path, ids=np.array(["a", "b" * 2000]))
    store = open_store(str(path))
    assert store.text("ids").tolist() == ["a", "b" * 2000]  # type: ignore[attr-defined]
    store.close()


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_member_that_can_only_be_unpacked_as_a_whole_is_refused(
    method: int, tmp_path: Path
) -> None:
    """2 kB of bzip2 are 3 GB of zeros, and Python's zipfile unpacks all that it has read."""
    with zipfile.ZipFile(tmp_path / "a.npz", "w", method) as archive:
        archive.writestr("vectors.npy", npy(ROWS))
    store = open_store(str(tmp_path / "a.npz"))
    assert "which Python can only unpack as a whole" in store.describe("vectors")["problem"]
    store.close()
    assert "unpack as a whole" in verify(str(tmp_path / "a.npz")).problems[0]
    with pytest.raises(BadData, match="unpack as a whole"):
        convert(str(tmp_path / "a.npz"), str(tmp_path / "b.npz"))
